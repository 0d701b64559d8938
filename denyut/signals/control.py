"""Remote control: what other processes tell a worker by Celery's own means.

One command of Denyut's own lets the heartbeat beat at once, so that a worker learns of a cancellation
without waiting for its next beat. Celery's ``revoke`` ends jobs that wait, in the store or in a queue, at
once and for good: by itself it would take effect only when the message comes to a worker that still
remembers the id.
"""

from __future__ import annotations

import logging
from functools import wraps
from typing import TYPE_CHECKING, Any

from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from denyut.tasks.cancellation import HURRY, cancel_waiting

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["install_control"]

logger = logging.getLogger(__name__)

#: The attribute of a worker that lets its heartbeat beat now.
_HURRY = "denyut_hurry"


def install_control(worker: Any, hurry: Callable[[], None]) -> None:
    """Let ``worker`` obey Denyut's command, and revoke jobs. May be called for many workers of a process."""
    from celery.worker.control import Panel

    setattr(worker, _HURRY, hurry)
    if HURRY not in Panel.data:
        Panel.register(name=HURRY, type="control", visible=False)(_beat_now)
        for name in ("revoke", "terminate"):
            Panel.data[name] = _revoking(Panel.data[name])


def _beat_now(state: Any, **_: Any) -> dict[str, str]:
    """Let the heartbeat beat now."""
    hurry = getattr(state.consumer.controller, _HURRY, None)
    if hurry is None:
        return {"error": "this worker has no heartbeat"}
    hurry()
    return {"ok": "beating"}


def _revoking(revoke: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command of Celery's that revokes, followed by the end of those jobs that wait."""

    @wraps(revoke)
    def revoke_jobs(state: Any, **arguments: Any) -> Any:
        reply = revoke(state, **arguments)
        pulse, ids = getattr(state.app, "denyut", None), arguments.get("task_id")
        for job_id in {ids} if isinstance(ids, str) else set(ids or ()):
            try:
                if pulse is not None and cancel_waiting(pulse, job_id, "revoked", revoked=True):
                    logger.info("job %s: revoked while it waited", job_id)
            except (RedisError, OperationalError):  # the worker that gets its message drops it
                logger.exception("job %s: it could not be ended now", job_id)
        return reply

    return revoke_jobs
