"""Taking the lease of a running job away by hand, so that it runs again."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

from denyut.errors import NotReleasable
from denyut.scripts import Script
from denyut.tasks.cancellation import hurry, who
from denyut.tasks.claim import us
from denyut.tasks.envelope import Envelope, Stamp
from denyut.tasks.key import check_id
from denyut.tasks.missing import no_such_job

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["Release", "release_job"]

RELEASE = Script("denyut.tasks", "release")

#: How long the publishing may take before recovery does it (s).
_PUBLISH_WITHIN = 10.0


@dataclass(frozen=True, slots=True)
class Release:
    """A job that was taken away from ``worker``, and was published again."""

    id: str
    worker: str

    def __str__(self) -> str:
        return f"job {self.id} was taken away from {self.worker}; it runs again"


def release_job(pulse: Denyut, job_id: str, *, reason: str = "", by: str | None = None) -> Release:
    """Take the running job ``job_id`` away from its worker and publish it again.

    The attempt is fenced off: it is told to stop as one that lost its lease (``LeaseLost``), and
    whatever it still writes is refused. The next attempt begins from the last checkpoint.

    Args:
        pulse: the app's Denyut.
        job_id: the job.
        reason: why, for its story.
        by: who; None: this process.

    Raises:
        InvalidKey: if ``job_id`` cannot be the id of a job.
        UnknownJob: if there is no such job.
        NotReleasable: if it does not run, or was cancelled; nothing was changed.
        kombu.exceptions.OperationalError: it was taken away and could not be published now; recovery
            publishes it.
    """
    client = pulse.store.client
    why = json.dumps([reason, by or who()])
    args = [check_id(job_id), why, by or who(), uuid4().hex, us(_PUBLISH_WITHIN)]
    code, *rest = RELEASE(client, pulse.keys.script(job_id), args)
    if code == b"UNKNOWN":
        raise no_such_job(pulse, job_id, "nothing was released")
    if code == b"STOPPING":
        raise NotReleasable(f"job {job_id} was cancelled and is about to stop: nothing was released")
    if code == b"OTHER":
        raise NotReleasable(f"job {job_id} is {rest[0].decode()}, only a RUNNING one can be released")
    message, marker, at, generation, owner = rest
    hurry(pulse, owner.decode())  # first: the old attempt should end before the new one begins
    Envelope.load(message).publish(pulse.app, Stamp(gen=int(generation), marker=marker.decode(), at=int(at)))
    client.zrem(pulse.keys.partition(pulse.keys.partition_of(job_id)).held, job_id)
    return Release(job_id, owner.decode().partition("|")[0])
