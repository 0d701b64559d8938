"""Moving one job on: the atomic step, and what follows from it."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any

from denyut.scripts import Script
from denyut.tasks.bury import bury
from denyut.tasks.claim import us
from denyut.tasks.envelope import Stamp
from denyut.tasks.expire import tell_expired
from denyut.tasks.fate import BLAMED, DRAINED, SHARED, is_to_blame
from denyut.tasks.node import current_node
from denyut.tasks.suspects import line_up
from denyut.tasks.tell import settle_cancelled
from denyut.tasks.unreadable import read_or_end

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["Moved", "recover", "recover_lost_child"]

RECOVER = Script("denyut.tasks", "recover")

logger = logging.getLogger(__name__)

#: How long a recoverer that has moved a job to QUEUED may take to publish it (s).
_PUBLISH_WITHIN = 10.0

#: What was done: ``PUBLISH`` (its message was sent), ``DEAD`` (it was buried), ``EXPIRED`` (Celery was
#: told so), ``CANCELLED`` (it was told to stop, and has), ``SUSPECT`` (it waits for its turn),
#: ``FAILED`` (its message cannot be read), or
#: ``NOTHING``.
Moved = str


def recover(
    pulse: Denyut,
    job_id: str,
    why: str,
    *,
    owner: str = "",
    pid: int = 0,
    generation: int = 0,
    drained: bool = False,
) -> Moved:
    """Move the job ``job_id`` on if it is left alone, and publish it again or bury it.

    Args:
        pulse: the app's Denyut.
        job_id: the job.
        why: ``lapsed`` (a deadline of it has passed), ``lost`` (its message is nowhere), ``child`` (the
            process that had it is dead), or ``turn`` (it is a suspect whose turn has come).
        owner: with ``child``: the worker node of that process.
        pid: with ``child``: that process.
        generation: with ``child``: of the message it had; -1 to move only an attempt that ran.
        drained: with ``child``: its worker has ended that process on purpose.

    Raises:
        redis.exceptions.RedisError, kombu.exceptions.OperationalError: it is tried again by the next
            round of any recoverer.
    """
    settings, client = pulse.settings, pulse.store.client
    args = [job_id, why, owner, pid, generation, settings.max_crashes]
    args += [us(_PUBLISH_WITHIN), us(settings.lease_ttl), us(settings.queued_timeout)]
    args += [current_node().owner, os.getpid()]
    known = DRAINED if drained else ""
    reply: list[Any] = RECOVER(client, pulse.keys.script(job_id), [*args, known])
    if reply[0] == b"JUDGE":
        known = BLAMED if is_to_blame(pulse, reply[1].decode(), job_id) else SHARED
        reply = RECOVER(client, pulse.keys.script(job_id), [*args, known])
    what: Moved = reply[0].decode()
    if what == "DEAD":
        message, fence, crashes, digest = reply[1:5]
        logger.error("job %s: crash budget spent after %d lost workers", job_id, int(crashes))
        bury(pulse, job_id, message, int(fence), int(crashes), digest.decode() or None)
    elif what == "EXPIRED":
        message, fence, digest, error = reply[1:5]
        tell_expired(pulse, job_id, message, int(fence), digest.decode() or None, error)
    elif what == "CANCELLED":
        message, fence, digest, error = reply[1:5]
        settle_cancelled(pulse, job_id, int(fence), message, digest.decode() or None, error)
    elif what == "PUBLISH":
        message, marker, at, number, reason = reply[1:6]
        logger.info("job %s: published again (%s)", job_id, reason.decode())
        stamp = Stamp(gen=int(number), marker=marker.decode(), at=int(at))
        envelope = read_or_end(pulse, job_id, message)
        if envelope is None:
            return "FAILED"
        envelope.publish(pulse.app, stamp)
        client.zrem(pulse.keys.partition(pulse.keys.partition_of(job_id)).held, job_id)
    elif what == "SUSPECT":
        line_up(pulse, job_id)
        logger.warning("job %s: it shared a dead worker; it runs again when its turn comes", job_id)
    return what


def recover_lost_child(
    pulse: Denyut, job_id: str, pid: int | None, generation: int, *, drained: bool = False
) -> Moved:
    """Move the job of a dead pool process of this worker on (see :func:`recover`)."""
    owner = current_node().owner
    return recover(pulse, job_id, "child", owner=owner, pid=pid or 0, generation=generation, drained=drained)
