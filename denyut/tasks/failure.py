"""How an attempt failed, as the record keeps it. Whatever was raised, this does not raise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from celery.app.task import Context
from celery.app.trace import TraceInfo, trace_ok_t
from celery.states import FAILURE
from celery.utils.serialization import get_pickleable_exception

from denyut.errors import JobExited
from denyut.tasks.finish import Outcome, text_of, traceback_of
from denyut.tasks.result import encode_result

if TYPE_CHECKING:
    from collections.abc import Mapping

    from denyut.states import State

__all__ = ["as_failure", "failure_of", "tell_failure"]

_LONGEST_ARG = 1000


def as_failure(exc: BaseException) -> Exception:
    """Return what Celery is to be told in place of ``exc``, which left a body.

    Celery, the pool, and the caller that fetches the result all let an error through that is no
    ``Exception``, and would end themselves by it.
    """
    if isinstance(exc, Exception):
        return exc
    failure = JobExited(type(exc).__name__, text_of(exc)[:_LONGEST_ARG])
    failure.__cause__ = exc
    failure.__traceback__ = exc.__traceback__
    return failure


def failure_of(task: Any, state: State, exc: Exception) -> Outcome:
    """Return the outcome of an attempt that ended as ``state`` because of ``exc``."""
    return Outcome.of_error(state, exc, exception=_encoded(task, exc), traceback=traceback_of(exc))


def tell_failure(task: Any, request: Mapping[str, Any], exc: Exception) -> Any:
    """Tell Celery that a delivery failed of which its own tracer could not: result, error links, chord.

    Args:
        task: the task.
        request: of the delivery, with its body's parts.
        exc: why.

    Returns:
        What Celery's tracer would have returned.
    """
    info = TraceInfo(FAILURE, exc)
    einfo = info.handle_error_state(task, Context(request, called_directly=False))
    return trace_ok_t(einfo, info, 0.0, None)


def _encoded(task: Any, exc: Exception) -> str:
    try:
        return encode_result(task.backend.prepare_exception(_pickleable(exc), serializer="json"), "json")
    except Exception:  # noqa: BLE001 - its arguments may do anything when they are encoded
        kind = type(exc)
        data = {
            "exc_type": kind.__name__,
            "exc_message": [text_of(exc)[:_LONGEST_ARG]],
            "exc_module": kind.__module__,
        }
        return encode_result(data, "json")


def _pickleable(exc: Exception) -> Exception:
    found: Exception = get_pickleable_exception(exc)
    return found
