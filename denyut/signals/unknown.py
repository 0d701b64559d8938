"""A job whose task this worker does not know is left for a worker that does.

Celery discards such a message and tells the caller that the task failed. In a deploy, where new producers
meet old workers for a while, that would lose jobs.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from redis.exceptions import RedisError

from denyut.tasks.envelope import Stamp
from denyut.tasks.follow import park

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["leave_unknown"]

#: How long such a job waits before it is published again (s), and by how much longer each time: another
#: worker may take it then, or this one again.
_FIRST_PAUSE, _GROWTH, _LONGEST_PAUSE = 1.0, 1.25, 60.0

logger = logging.getLogger(__name__)


def leave_unknown(pulse: Denyut, worker: Any) -> None:
    """Let ``worker``, before it consumes, put jobs aside whose task it does not know.

    A message of a client without Denyut, of which there is no record, goes Celery's way.
    """
    consumer = getattr(worker, "consumer", None)
    discard = getattr(consumer, "on_unknown_task", None)
    if consumer is None or discard is None:  # a worker that does not consume
        return

    def on_unknown_task(body: Any, message: Any, exc: BaseException) -> None:
        headers = message.headers or {}
        stamp, job_id, name = Stamp.of(headers), headers.get("id"), headers.get("task")
        if not stamp.gen or not job_id:
            discard(body, message, exc)
            return
        pause = min(_FIRST_PAUSE * _GROWTH ** min(stamp.gen - 1, 30), _LONGEST_PAUSE)
        try:
            parked = park(pulse, job_id, stamp.gen, pause)
        except RedisError:  # the message stays with the broker until it is redelivered
            logger.exception("job %s: task %s is unknown here, and Redis is away", job_id, name)
            return
        if parked:
            logger.error(
                "job %s: task %s is unknown here; it is published again in %g s, for a worker that knows it",
                job_id,
                name,
                pause,
            )
        message.ack_log_error(logger, consumer.connection_errors)

    consumer.on_unknown_task = on_unknown_task
