"""A hard time limit is a failure like any other: retried by the task's own policy, from outside its process.

The process that ran over its limit is killed, so that ``self.retry`` cannot be called in it. The worker's
main process does what ``autoretry_for`` would have done (see ``celery.app.autoretry``), with the message
that the record keeps.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from celery.utils.time import get_exponential_backoff_interval

from denyut.states import State
from denyut.tasks.envelope import Envelope, Stamp
from denyut.tasks.finish import Outcome, requeue

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["retry_delay", "retry_over_limit"]

logger = logging.getLogger(__name__)


def retry_delay(task: Any, exc: Exception, retries: int) -> float | None:
    """Return the seconds after which the task's policy runs it again after ``exc``; None if it does not.

    Args:
        task: the task, with ``autoretry_for``, ``retry_backoff``, ``max_retries`` and the like.
        exc: the error.
        retries: how many retries it had.
    """
    wanted, unwanted = getattr(task, "autoretry_for", ()), getattr(task, "dont_autoretry_for", ())
    if not isinstance(exc, tuple(wanted)) or isinstance(exc, tuple(unwanted)):
        return None
    options = getattr(task, "retry_kwargs", {})
    most = options.get("max_retries", task.max_retries)
    if most is not None and retries >= most:
        return None
    backoff = getattr(task, "retry_backoff", False)
    if backoff:
        return float(
            get_exponential_backoff_interval(
                factor=int(max(1.0, float(backoff))),
                retries=retries,
                maximum=int(getattr(task, "retry_backoff_max", 600)),
                full_jitter=getattr(task, "retry_jitter", True),
            )
        )
    delay = options.get("countdown")
    return float(task.default_retry_delay if delay is None else delay)


def retry_over_limit(
    pulse: Denyut, task: Any, job_id: str, exc: Exception, *, owner: str, pid: int | None, generation: int
) -> bool:
    """Let the job begin its next generation, if its policy says so and the attempt that is meant still runs.

    Args:
        pulse: the app's Denyut.
        task: the task.
        job_id: the job.
        exc: the TimeLimitExceeded.
        owner: the worker node of the attempt that is meant,
        pid: and its process.
        generation: of the message that the worker had; 0: any.

    Returns:
        Whether it will run again.

    Raises:
        redis.exceptions.RedisError, kombu.exceptions.OperationalError: its lease lapses, or recovery
            publishes it.
    """
    record = pulse.keys.job(job_id).record
    fields = ("state", "owner", "pid", "gen", "fence", "msg", "queue", "task")
    raw = dict(zip(fields, pulse.store.client.hmget(record, *fields), strict=True))
    meant = {"state": State.RUNNING, "owner": owner, "pid": str(pid)}
    found = {name: (value or b"").decode() for name, value in raw.items()}
    if any(found[name] != value for name, value in meant.items()) or not found["msg"]:
        return False
    if generation and found["gen"] != str(generation):
        return False
    envelope = Envelope.load(found["msg"])
    retries = int(envelope.headers.get("retries") or 0)
    delay = retry_delay(task, exc, retries)
    if delay is None:
        return False
    again = replace(envelope, headers={**envelope.headers, "retries": retries + 1, "eta": None})
    return _begin(pulse, job_id, int(found["fence"]), again, delay, found, exc)


def _begin(
    pulse: Denyut,
    job_id: str,
    fence: int,
    envelope: Envelope,
    delay: float,
    found: dict[str, str],
    exc: Exception,
) -> bool:
    reply = requeue(
        pulse,
        job_id,
        fence,
        "retry",
        message=envelope.dump(),
        delay=delay,
        task=found["task"],
        queue=found["queue"],
        token=uuid4().hex,
        error=Outcome.of_error(State.RETRYING, exc).error,
    )
    if reply[0] == b"RESERVED":
        envelope.publish(pulse.app, Stamp(gen=int(reply[3]), marker=reply[1].decode(), at=int(reply[2])))
    elif reply[0] != b"SCHEDULED":
        return False
    logger.info("job %s: over its hard time limit; retried in %g s", job_id, delay)
    return True
