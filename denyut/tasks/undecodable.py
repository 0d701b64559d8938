"""The end of a job whose message this worker refuses to decode: it fails, and its caller is told so.

Celery discards such a message with a line in the log. The job's record would have it published again,
and discarded again, for ever.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from celery.exceptions import InvalidTaskError
from kombu.exceptions import ContentDisallowed, DecodeError, KombuError
from redis.exceptions import RedisError

from denyut.errors import UnreadableMessage
from denyut.states import State
from denyut.tasks.cancel import end_from_outside
from denyut.tasks.envelope import HEADER

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["UNDECODABLE", "end_undecodable"]

logger = logging.getLogger(__name__)

#: What Celery takes for the message's fault, and discards it.
UNDECODABLE = (InvalidTaskError, ContentDisallowed, DecodeError)


def end_undecodable(pulse: Denyut, task: Any, message: Any, exc: Exception) -> bool:
    """End the job of ``message`` as FAILED, a dead letter, unless it runs, or has ended.

    Its callbacks and its chord are in the part that cannot be decoded, so only its result says it.

    Args:
        pulse: the app's Denyut.
        task: the job's task.
        message: as the worker received it; of a client without Denyut nothing is known, and nothing done.
        exc: why it cannot be decoded.

    Returns:
        Whether it was ended.
    """
    job_id = message.headers.get("id")
    if not job_id or HEADER not in message.headers:
        return False
    error = UnreadableMessage(
        f"job {job_id}: workers refuse to decode its message ({exc}); "
        "send with a serializer that is in accept_content, or add it there"
    )
    try:
        ended = end_from_outside(pulse, job_id, State.FAILED, error, retention=task.retention, running=False)
        if ended.done:
            task.backend.mark_as_failure(job_id, error)
    except (RedisError, KombuError, OSError):  # published again, it is met again
        logger.exception("job %s: its message cannot be decoded, but it could not be ended now", job_id)
        return False
    return ended.done
