"""Telling Celery that a dead job failed: its result, error links and chord hear of it, once."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from celery import signals
from kombu.exceptions import KombuError

from denyut.errors import JobDead
from denyut.states import State
from denyut.tasks.attempt import Attempt, activate_attempt
from denyut.tasks.claim import Claim, Code
from denyut.tasks.context import context_of
from denyut.tasks.dead import read_letters
from denyut.tasks.envelope import Envelope
from denyut.tasks.finish import settle
from denyut.tasks.run import JobRun

if TYPE_CHECKING:
    from celery.app.task import Context

    from denyut.app import Denyut

__all__ = ["bury"]

logger = logging.getLogger(__name__)


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
    app, traceback = pulse.app, _died_of(pulse, job_id)
    exc = JobDead(f"job {job_id} lost {crashes} workers (denyut_max_crashes={pulse.settings.max_crashes})")
    retention = pulse.settings.retention
    context = _context(app, job_id, message) if message else None
    if message and context is None:  # whoever waits for the result is told all the same
        app.backend.mark_as_failure(job_id, exc, traceback)
    if context is not None:
        task = app._tasks.get(context.task)  # noqa: SLF001 - it may be unknown here
        backend = task.backend if task is not None else app.backend
        retention = getattr(task, "retention", None) or retention
        attempt = _attempt(pulse, task, job_id, fence, retention)
        with activate_attempt(attempt):  # so that what is sent has the ids that a replay would give it
            stored = not context.ignore_result
            backend.mark_as_failure(job_id, exc, traceback, request=context, store_result=stored)
        signals.task_failure.send(
            sender=task,
            task_id=job_id,
            exception=exc,
            args=context.args,
            kwargs=context.kwargs,
            traceback=traceback,
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


def _context(app: Any, job_id: str, message: str | bytes) -> Context | None:
    try:
        return context_of(app, Envelope.load(message))
    except (KombuError, ValueError, KeyError, TypeError):
        logger.exception(
            "job %s: its message cannot be read here, so only its result says that it died", job_id
        )
        return None


def _died_of(pulse: Denyut, job_id: str) -> str:
    """Return what every attempt died of, in the place of a traceback."""
    lines = []
    for letter in read_letters(pulse, [job_id]):
        for error in letter.errors:
            who = f"{error.owner.partition('|')[0]}, pid {error.pid}"
            lines += [f"attempt {error.attempt} on {who}: {error.type}: {error.message}"]
            lines += [error.traceback.rstrip()] if error.traceback else []
    return "\n".join(lines)
