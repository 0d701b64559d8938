"""The outcome of an ended job, given again: its result returned, or its error raised."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from denyut.errors import DenyutError, JobCancelled, JobDead
from denyut.states import State
from denyut.tasks.result import decode_result

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["outcome_of", "raising"]


def outcome_of(task: Any, job_id: str, state: State, result: str, exception: str) -> Callable[[], Any]:
    """Return a function that gives the outcome of job ``job_id`` as its body gave it.

    Args:
        task: the task, whose backend can rebuild an exception.
        job_id: the ended job, for the message.
        state: how it ended.
        result: its encoded result, if it completed.
        exception: its encoded exception, if it raised one.
    """
    if state == State.COMPLETED:
        conf = task.app.conf
        accept = conf.result_accept_content or conf.accept_content
        return lambda: decode_result(result, accept) if result else None
    if exception:
        return lambda: _raise(task.backend.exception_to_python(decode_result(exception)))
    kinds: dict[State, type[BaseException]] = {State.DEAD: JobDead, State.CANCELLED: JobCancelled}
    return raising(kinds.get(state, DenyutError)(f"job {job_id} ended as {state} and has no result"))


def _raise(exc: BaseException) -> NoReturn:
    raise exc


def raising(exc: BaseException) -> Callable[[], NoReturn]:
    """Return a function that raises ``exc``."""
    return lambda: _raise(exc)
