"""Telling Celery that a job was cancelled: its result, chain, chord and error links hear of it.

Its own result, and those of the tasks chained after it, which never run, become REVOKED with a
``TaskRevokedError``: nobody waits for ever. A chord fails with an error that names the member, or goes on
without it, as ``denyut_on_cancel`` says.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

from celery.app.task import Context
from celery.exceptions import TaskRevokedError
from celery.states import REVOKED, SUCCESS
from redis.exceptions import RedisError

from denyut.tasks.context import context_of
from denyut.tasks.envelope import Envelope
from denyut.tasks.finish import settle

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["cancelled_why", "settle_cancelled", "tell_cancelled"]

logger = logging.getLogger(__name__)


def tell_cancelled(pulse: Denyut, task: Any, job_id: str, context: Any, reason: str) -> None:
    """Tell Celery that job ``job_id`` was cancelled.

    Args:
        pulse: the app's Denyut.
        task: its task; None if it is not known here.
        job_id: the job, whose record says CANCELLED already.
        context: its request.
        reason: who cancelled it, and why: the text of the ``TaskRevokedError``.
    """
    backend = task.backend if task is not None else pulse.app.backend
    ignored = context.ignore_result
    if ignored is None:
        ignored = getattr(task, "ignore_result", False)
    stored = not ignored or bool(getattr(task, "store_errors_even_if_ignored", False))
    skipped = _leave_chords(context) if pulse.settings.on_cancel == "skip" else []
    backend.mark_as_failure(
        job_id, TaskRevokedError(reason), request=context, store_result=stored, state=REVOKED
    )
    for member in skipped:
        backend.on_chord_part_return(member, SUCCESS, None)


def _leave_chords(context: Context) -> list[Context]:
    """Take a job, and what is chained after it, out of their chords; return those that were members."""
    members = []
    if context.chord:
        members.append(Context(context.__dict__.copy()))
        context.chord = None
    chain = []
    for step in context.chain or ():
        options = step.get("options") or {}
        if "chord" in options:  # made a request as Celery does where it fails a chain
            member = Context(step)
            member.update(options, id=options.get("task_id"), group=options.get("group_id"))
            members.append(member)
        chain.append({**step, "options": {k: v for k, v in options.items() if k != "chord"}})
    context.chain = chain
    return members


def _tell_revoked(pulse: Denyut, task: Any, job_id: str, context: Any, reason: str) -> None:
    backend = task.backend if task is not None else pulse.app.backend
    # From Celery 5.7 on the revoke itself stores this; before, whoever got the message did.
    stored = not context.ignore_result
    backend.mark_as_revoked(job_id, reason, request=context, store_result=stored)


def cancelled_why(pulse: Denyut, job_id: str) -> str:
    """Return who cancelled a job and why; empty if nobody did, or Redis cannot say now."""
    try:
        raw = pulse.store.client.hget(pulse.keys.job(job_id).record, "cancel")
    except RedisError:
        return ""  # what depends on it is only a text
    return str(json.loads(raw)[1]) if raw else ""


def settle_cancelled(
    pulse: Denyut,
    job_id: str,
    fence: int,
    message: str | bytes,
    digest: str | None,
    error: str | bytes,
    *,
    revoked: bool = False,
) -> bool:
    """Tell Celery of a job that was ended by another hand than its attempt's, and settle it.

    Args:
        pulse: the app's Denyut.
        job_id: the job, in state CANCELLED under ``fence``.
        fence: of the step that ended it.
        message: its envelope; without one there is nobody to tell.
        digest: of its idempotency key.
        error: who and why, as in the record.
        revoked: do no more than Celery's own revoke: store the result, and tell the chord.

    Returns:
        False if Celery could not be told. Then the job stays unsettled, and recovery tells when the
        lease of ``fence`` is over.
    """
    app, retention = pulse.app, pulse.settings.retention
    try:
        if message:
            context = context_of(app, Envelope.load(message))
            task = app._tasks.get(context.task)  # noqa: SLF001 - it may be unknown here
            tell = _tell_revoked if revoked else tell_cancelled
            tell(pulse, task, job_id, context, json.loads(error)[1])
            retention = getattr(task, "retention", None) or retention
    except Exception:  # whatever a backend or an error link raises: the job is cancelled all the same
        logger.exception("job %s: it is cancelled, but Celery could not be told; recovery will", job_id)
        return False
    return settle(pulse, job_id, fence, digest=digest, retention=retention, completed=False)
