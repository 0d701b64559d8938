"""Celery's result backend as it sends a job's continuation: the same at every replay, and each part once.

Chord parts, chord bodies and error links are sent by the result backend. While an attempt sends its
continuation, each of these gets a scope of its own for the ids that are drawn in it (see
:meth:`Attempt.child_id`): what a replay need not send again does not shift the ids of what follows. The
scope of a chord is the chord, whichever of its members sends the body.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from celery.backends.redis import RedisBackend
from celery.states import PROPAGATE_STATES
from kombu.utils.encoding import bytes_to_str

from denyut.scripts import Script
from denyut.tasks.attempt import active_attempt
from denyut.tasks.replace import end_replaced

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from denyut.tasks.attempt import Attempt

__all__ = ["ERROR_LINKS", "JobContinuation"]

ADD_PART = Script("denyut.tasks", "add_part")

#: How the scope of the error links of one task begins.
ERROR_LINKS = "error links of"


class JobContinuation:
    """Mixed into the class of the app's result backend (see :mod:`denyut.tasks.backend`)."""

    app: Any

    def on_chord_part_return(self, request: Any, state: str, result: Any, **kwargs: Any) -> Any:
        """Take part in a chord, in the scope of that chord."""
        with _scope(f"chord {request.group}"):
            return super().on_chord_part_return(request, state, result, **kwargs)  # type: ignore[misc]

    def _call_task_errbacks(self, request: Any, exc: Any, traceback: Any) -> Any:
        with _scope(f"{ERROR_LINKS} {request.id}"):
            return super()._call_task_errbacks(request, exc, traceback)  # type: ignore[misc]

    def store_result(self, task_id: str, result: Any, state: str, *args: Any, **kwargs: Any) -> Any:
        """Store a result, and end a job whose replacement has failed.

        Such a failure is stored under the job's id by the step of its chain or chord that failed: the
        step with that id will never be sent.
        """
        attempt = _continuing()
        if attempt is not None and task_id != attempt.run.id and state in PROPAGATE_STATES:
            end_replaced(attempt.pulse, task_id, result)
        return super().store_result(task_id, result, state, *args, **kwargs)  # type: ignore[misc]

    def add_to_chord(self, group_id: str, result: Any) -> None:
        """Count a part that a task adds to its chord: once, also if the task runs again after a crash."""
        if not isinstance(self, RedisBackend):
            super().add_to_chord(group_id, result)  # type: ignore[misc]
            return
        added = bytes_to_str(self.get_key_for_group(group_id, ".t"))
        expires = int(getattr(self, "chord_expires", None) or self.expires or 0)
        ADD_PART(self.client, [added, self.app.denyut.keys.added_parts(added)], [result.id, expires])


def _continuing() -> Attempt | None:
    attempt = active_attempt()
    return attempt if attempt is not None and attempt.continuing else None


def _scope(name: str) -> AbstractContextManager[None]:
    attempt = _continuing()
    return attempt.scope(name) if attempt is not None else nullcontext()
