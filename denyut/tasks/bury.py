"""Telling Celery that a dead job failed: its result, error links and chord hear of it, once."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from celery import signals
from kombu.exceptions import KombuError

from denyut.errors import JobDead
from denyut.states import State
from denyut.tasks.context import context_of
from denyut.tasks.dead import read_letters
from denyut.tasks.envelope import Envelope
from denyut.tasks.telling import telling

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
    context = _context(app, job_id, message) if message else None
    task = app._tasks.get(context.task) if context is not None else None  # noqa: SLF001 - it may be unknown
    with telling(pulse, task, job_id, State.DEAD, fence=fence, digest=digest, owner="recovery"):
        if context is not None:
            backend = task.backend if task is not None else app.backend
            stored = not context.ignore_result
            backend.mark_as_failure(job_id, exc, traceback, request=context, store_result=stored)
            _send_signal(task, job_id, exc, traceback, context)
        elif message:  # whoever waits for the result is told all the same
            app.backend.mark_as_failure(job_id, exc, traceback)


def _send_signal(task: Any, job_id: str, exc: Exception, traceback: str, context: Context) -> None:
    signals.task_failure.send(
        sender=task,
        task_id=job_id,
        exception=exc,
        args=context.args,
        kwargs=context.kwargs,
        traceback=traceback,
        einfo=None,
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
