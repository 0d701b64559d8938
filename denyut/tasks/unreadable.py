"""A job whose stored message cannot be read: it can never run, so it ends as a failure and is told so."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from denyut.errors import UnreadableMessage
from denyut.states import State
from denyut.tasks.cancel import end_from_outside
from denyut.tasks.envelope import Envelope
from denyut.tasks.finish import settle

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["read_or_end"]

logger = logging.getLogger(__name__)


def read_or_end(pulse: Denyut, job_id: str, message: str | bytes) -> Envelope | None:
    """Return the envelope of a job that is to be published again; end the job if there is none to read.

    A job that waits ends as FAILED, a dead letter, and its result says so; of one that has ended already
    what follows it cannot be sent, and it is settled.

    Args:
        pulse: the app's Denyut.
        job_id: the job.
        message: what its record keeps.

    Returns:
        None if the job was ended.
    """
    try:
        return Envelope.load(message)
    except (ValueError, KeyError, TypeError) as exc:
        error = UnreadableMessage(
            f"job {job_id}: its stored message cannot be read ({exc}); it can never run"
        )
    logger.error("%s", error)
    ended = end_from_outside(pulse, job_id, State.FAILED, error, retention=None, running=False)
    if ended.done:
        pulse.app.backend.mark_as_failure(job_id, error)
    elif ended.found is not None:
        fence, digest = pulse.store.client.hmget(pulse.keys.job(job_id).record, "fence", "digest")
        settle(
            pulse,
            job_id,
            int(fence),
            digest=digest.decode() if digest else None,
            retention=pulse.settings.retention,
            completed=ended.found == State.COMPLETED,
        )
    return None
