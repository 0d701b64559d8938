"""Telling Celery that a dead job failed: its result, error links and chord hear of it, once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from celery import signals
from celery.app.task import Context

from denyut.errors import JobDead
from denyut.states import State
from denyut.tasks.attempt import Attempt, activate_attempt
from denyut.tasks.claim import Claim, Code
from denyut.tasks.envelope import Envelope
from denyut.tasks.finish import settle
from denyut.tasks.run import JobRun

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["bury"]


def bury(
    pulse: Denyut, job_id: str, message: str | bytes, fence: int, crashes: int, digest: str | None
) -> None:
    """Report the dead job ``job_id`` as a Celery failure and settle it.

    Args:
        pulse: the app's Denyut.
        job_id: the job, in state DEAD under ``fence``.
        message: its envelope; without one there is nobody to tell.
        fence: of the recovery that found it dead.
        crashes: how many workers it lost.
        digest: of its idempotency key.
    """
    app = pulse.app
    exc = JobDead(f"job {job_id} lost {crashes} workers (denyut_max_crashes={pulse.settings.max_crashes})")
    retention = pulse.settings.retention
    if message:
        context = _context(app, Envelope.load(message))
        task = app._tasks.get(context.task)  # noqa: SLF001 - it may be unknown here
        backend = task.backend if task is not None else app.backend
        retention = getattr(task, "retention", None) or retention
        attempt = _attempt(pulse, task, job_id, fence, retention)
        with activate_attempt(attempt):  # so that what is sent has the ids that a replay would give it
            backend.mark_as_failure(job_id, exc, request=context, store_result=not context.ignore_result)
        signals.task_failure.send(
            sender=task,
            task_id=job_id,
            exception=exc,
            args=context.args,
            kwargs=context.kwargs,
            traceback=None,
            einfo=None,
        )
    settle(pulse, job_id, fence, digest=digest, retention=retention, completed=False)


def _attempt(pulse: Denyut, task: Any, job_id: str, fence: int, retention: float) -> Attempt:
    return Attempt(
        pulse=pulse,
        task=task,
        queue="",
        claim=Claim(code=Code.DEAD, owner="recovery", fence=fence),
        run=JobRun(id=job_id, task=getattr(task, "name", ""), fence=fence),
        retention=retention,
        ended=State.DEAD,
    )


def _context(app: Any, envelope: Envelope) -> Context:
    args, kwargs, embed = envelope.decode(app.conf.accept_content)
    info = {"exchange": envelope.exchange, "routing_key": envelope.routing_key}
    return Context(
        {**envelope.headers, **envelope.properties, "args": args, "kwargs": kwargs, **(embed or {})},
        delivery_info=info,
    )
