"""The steps out of RUNNING: finish, settle, the next generation, a checkpoint. All guarded by the fence."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from denyut.scripts import Script
from denyut.states import State
from denyut.tasks.claim import us
from denyut.tasks.keying import close_foreign_key
from denyut.tasks.patience import patiently

if TYPE_CHECKING:
    from collections.abc import Sequence

    from denyut.app import Denyut
    from denyut.tasks.backend import StoredResult

__all__ = ["Outcome", "finish", "requeue", "save_checkpoint", "settle", "text_of", "traceback_of"]

FINISH = Script("denyut.tasks", "finish")
SETTLE = Script("denyut.tasks", "settle")
REQUEUE = Script("denyut.tasks", "requeue")
CHECKPOINT = Script("denyut.tasks", "checkpoint")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How an attempt ended. Texts are as the record keeps them; empty if there is none."""

    state: State
    result: str = ""
    exception: str = ""
    error: str = ""
    traceback: str = ""

    @classmethod
    def of_error(
        cls, state: State, exc: BaseException, *, exception: str = "", traceback: str = ""
    ) -> Outcome:
        """Return the outcome of an attempt that raised ``exc``."""
        error = json.dumps([type(exc).__name__, _shorten(text_of(exc))])
        # A traceback shows values of the task's, in which there may be what UTF-8 cannot hold.
        shown = _shorten(traceback).encode("utf-8", "backslashreplace").decode()
        return cls(state=state, exception=exception, error=error, traceback=shown)


def finish(
    pulse: Denyut,
    job_id: str,
    fence: int,
    outcome: Outcome,
    *,
    digest: str | None,
    retention: float,
    settled: bool,
    stored: StoredResult | None = None,
    reason: str = "",
    telemetry: Sequence[Any] = (),
) -> bool:
    """End the attempt ``fence`` of a job; with ``settled``, close the job in the same step.

    ``stored``: the result for Celery's readers, to be stored in the same step.
    ``reason``: of a failure, why its budget is spent: it becomes a dead letter.
    ``telemetry``: fields and values of what the task told last, which no beat may have seen.

    Returns:
        False if another attempt owns the job: then nothing was written.
    """
    args = [job_id, fence, outcome.state, "1" if settled else "0", outcome.result, outcome.exception]
    args += [outcome.error, outcome.traceback, us(retention), us(pulse.settings.lease_ttl)]
    args += [stored.text, stored.expires] if stored else ["", 0]
    args += [reason, *telemetry]
    keys: list[Any] = [*pulse.keys.script(job_id, digest), *([stored.key] if stored else [])]
    ok = bool(patiently(lambda: FINISH(pulse.store.client, keys, args)) == b"OK")
    if ok and outcome.state != State.COMPLETED:
        close_foreign_key(pulse, job_id, digest)
    elif ok and settled:
        close_foreign_key(pulse, job_id, digest, keep=retention)
    return ok


def settle(
    pulse: Denyut, job_id: str, fence: int, *, digest: str | None, retention: float, completed: bool
) -> bool:
    """Close a finished job: its continuation was sent. Returns False if another attempt owns it."""
    args = [job_id, fence, us(retention)]
    keys = pulse.keys.script(job_id, digest)
    ok = bool(patiently(lambda: SETTLE(pulse.store.client, keys, args)) == b"OK")
    if ok:
        close_foreign_key(pulse, job_id, digest, keep=retention if completed else 0.0)
    return ok


def requeue(
    pulse: Denyut,
    job_id: str,
    fence: int,
    what: str,
    *,
    message: str = "",
    delay: float = 0.0,
    task: str,
    queue: str,
    token: str,
    error: str = "",
    traceback: str = "",
    expires: float | None = None,
) -> list[Any]:
    """Begin the next generation of the running attempt ``fence``.

    Args:
        pulse: the app's Denyut.
        job_id: the job.
        fence: of the attempt that gives way.
        what: ``retry``, ``replace`` (without a message: it comes later), or ``requeue`` (same message).
        message: the new message.
        delay: seconds until it is due.
        task: name of the task that runs next.
        queue: where it goes.
        token: one-time token of this step, so that it may be sent twice.
        error: why, as JSON text.
        traceback: of the error.
        expires: with ``delay``: seconds until it is too late to run it.

    Returns:
        The reply of ``requeue.lua``: RESERVED (publish it), SCHEDULED, or LOST.
    """
    args: list[Any] = [job_id, fence, what, message, us(max(delay, 0.0)), task, queue, token]
    args += [error, traceback, "" if expires is None else us(expires)]
    return list(patiently(lambda: REQUEUE(pulse.store.client, pulse.keys.script(job_id), args)))


def save_checkpoint(pulse: Denyut, job_id: str, fence: int, data: str, *, retention: float) -> bool:
    """Keep ``data`` (JSON text) for the next attempt. Returns False if another attempt owns the job."""
    args = [job_id, fence, data, round(retention * 1000)]
    keys = pulse.keys.script(job_id)
    return bool(patiently(lambda: CHECKPOINT(pulse.store.client, keys, args)) == b"OK")


def text_of(exc: BaseException) -> str:
    """Return ``str(exc)``, or what is to be said of an error that fails at that."""
    try:
        return str(exc)
    except Exception as problem:  # noqa: BLE001 - the task's own code, which may raise anything
        return f"(its text cannot be shown: {type(problem).__name__})"


def traceback_of(exc: BaseException) -> str:
    """Return the traceback of ``exc`` as text. Whatever its classes do, this does not raise."""
    from traceback import format_exception

    try:
        return "".join(format_exception(exc))
    except Exception:  # noqa: BLE001 - as above
        return f"{type(exc).__name__}: (its traceback cannot be shown)"


def _shorten(text: str, most: int = 20_000) -> str:
    return (
        text
        if len(text) <= most
        else f"{text[: most // 2]}\n... {len(text) - most} more ...\n{text[-most // 2 :]}"
    )
