"""Telling Celery that a job ended in the store because it came too late: as ``expires`` does."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from celery import signals
from kombu.exceptions import KombuError

from denyut.tasks.context import context_of
from denyut.tasks.envelope import Envelope
from denyut.tasks.finish import settle

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["tell_expired"]

logger = logging.getLogger(__name__)


def tell_expired(
    pulse: Denyut,
    job_id: str,
    message: str | bytes,
    fence: int,
    digest: str | None,
    error: str | bytes,
    *,
    events: bool = False,
) -> None:
    """Report the expired job ``job_id`` to Celery as REVOKED, its chord too, and settle it.

    Args:
        pulse: the app's Denyut.
        job_id: the job, in state EXPIRED under ``fence``.
        message: its envelope; without one there is nobody to tell.
        fence: of the step that ended it.
        digest: of its idempotency key.
        error: why, as in the record.
        events: tell Celery's watchers (Flower) too.
    """
    kind, reason = json.loads(error)
    logger.warning("job %s: %s: %s", job_id, kind.lower(), reason)
    retention = pulse.settings.retention
    if message:
        retention = _tell(pulse, job_id, Envelope.load(message), reason) or retention
    if events:
        with pulse.app.events.default_dispatcher() as watchers:
            watchers.send("task-revoked", uuid=job_id, terminated=False, signum=None, expired=True)
    settle(pulse, job_id, fence, digest=digest, retention=retention, completed=False)


def _tell(pulse: Denyut, job_id: str, envelope: Envelope, reason: str) -> float | None:
    app = pulse.app
    task = app._tasks.get(envelope.headers.get("task"))  # noqa: SLF001 - it may be unknown here
    try:
        context = context_of(app, envelope)
    except KombuError:  # whoever waits for it is told all the same
        logger.exception("job %s: its message cannot be read here", job_id)
        context = None
    backend = task.backend if task is not None else app.backend
    ignored = bool(envelope.headers.get("ignore_result"))
    backend.mark_as_revoked(job_id, f"expired: {reason}", request=context, store_result=not ignored)
    signals.task_revoked.send(sender=task, request=context, terminated=False, signum=None, expired=True)
    return getattr(task, "retention", None)
