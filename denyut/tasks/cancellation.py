"""Cancelling a job in whatever state it is."""

from __future__ import annotations

import json
import logging
import os
from dataclasses import dataclass
from enum import StrEnum
from socket import gethostname
from typing import TYPE_CHECKING
from uuid import uuid4

from kombu.exceptions import OperationalError

from denyut.scripts import Script
from denyut.states import State
from denyut.tasks.claim import us
from denyut.tasks.key import check_id
from denyut.tasks.missing import no_such_job
from denyut.tasks.tell import settle_cancelled

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["HURRY", "Cancellation", "Outcome", "cancel_job", "cancel_waiting", "hurry", "who"]

CANCEL = Script("denyut.tasks", "cancel")

logger = logging.getLogger(__name__)

#: The remote control command that lets a worker's heartbeat beat now.
HURRY = "denyut_beat"


class Outcome(StrEnum):
    """What a cancellation did."""

    CANCELLED = "cancelled"  # it waited, or its worker was gone: it has ended
    REQUESTED = "requested"  # it runs, and is told to stop
    ENDED = "ended"  # it had ended before; nothing was changed


@dataclass(frozen=True, slots=True)
class Cancellation:
    """What became of one job that was to be cancelled.

    ``state`` is its state now: RUNNING if the cancellation was ``requested``, how it had ``ended``
    before, or CANCELLED.
    """

    id: str
    outcome: Outcome
    state: State

    def __str__(self) -> str:
        if self.outcome == Outcome.CANCELLED:
            return f"job {self.id} is cancelled"
        if self.outcome == Outcome.REQUESTED:
            return f"job {self.id} is running; it is told to stop"
        return f"job {self.id} had already ended as {self.state}; nothing was changed"


def cancel_job(pulse: Denyut, job_id: str, *, reason: str = "", by: str | None = None) -> Cancellation:
    """Cancel the job ``job_id``.

    Args:
        pulse: the app's Denyut.
        job_id: the job.
        reason: why, for whoever reads its record or waits for its result.
        by: who; None: this process.

    Raises:
        InvalidKey: if ``job_id`` cannot be the id of a job.
        UnknownJob: if there is no such job.
        redis.exceptions.RedisError: nothing is known; cancel it again.
    """
    text = f"cancelled by {by or who()}" + (f": {reason}" if reason else "")
    code, rest, digest, error = _cancel(pulse, check_id(job_id), text, spare_running=False)
    if code == "UNKNOWN":
        raise no_such_job(pulse, job_id, "nothing was cancelled")
    if code == "ENDED":
        return Cancellation(job_id, Outcome.ENDED, State(rest[0].decode()))
    if code == "REQUESTED":
        hurry(pulse, rest[0].decode())
        return Cancellation(job_id, Outcome.REQUESTED, State.RUNNING)
    settle_cancelled(pulse, job_id, int(rest[0]), rest[1], digest, error)
    if pulse.keys.stored:
        pulse.saving.wrote(job_id)
    return Cancellation(job_id, Outcome.CANCELLED, State.CANCELLED)


def cancel_waiting(pulse: Denyut, job_id: str, text: str, *, revoked: bool = False) -> bool:
    """End a job that waits; one that runs, or has ended, or is unknown, is left alone.

    Args:
        pulse: the app's Denyut.
        job_id: the job.
        text: who cancels it, and why.
        revoked: as Celery's revoke, which calls no error links: store the result, and tell the chord.

    Returns:
        Whether it was ended here.
    """
    code, rest, digest, error = _cancel(pulse, job_id, text, spare_running=True)
    if code != "CANCELLED":
        return False
    settle_cancelled(pulse, job_id, int(rest[0]), rest[1], digest, error, revoked=revoked)
    return True


def _cancel(
    pulse: Denyut, job_id: str, text: str, *, spare_running: bool
) -> tuple[str, list[bytes], str | None, str]:
    client = pulse.store.client
    raw = client.hget(pulse.keys.job(job_id).record, "digest")
    digest = raw.decode() if raw else None
    error = json.dumps(["JobCancelled", text])
    args = [job_id, error, who(), uuid4().hex, us(pulse.settings.lease_ttl), "1" if spare_running else "0"]
    code, *rest = CANCEL(client, pulse.keys.script(job_id, digest), args)
    return code.decode(), rest, digest, error


def hurry(pulse: Denyut, owner: str) -> None:
    """Let the worker ``owner`` beat now, so that it sees at once what a record has come to say.

    Without remote control, or while the broker is away, its next beat sees it: within lease_ttl / 3.
    """
    node = owner.rpartition("|")[0]
    try:
        pulse.app.control.broadcast(HURRY, destination=[node], retry=False)
    except (OperationalError, OSError) as exc:
        logger.info("worker %s could not be woken (%s); its next beat sees it", node, exc)


def who() -> str:
    """Return who does it, where nobody was named: process and host."""
    return f"{os.getpid()}@{gethostname()}"
