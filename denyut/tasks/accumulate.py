"""The last step of a group that replaces a task: it has the id of that task, so it is a job.

Celery's own ``celery.accumulate`` does the same and is no job: a job that was replaced by a group would
never be known to have ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from denyut.tasks.job_task import ACCUMULATE, JobTask

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["register"]


def register(pulse: Denyut) -> None:
    """Register the task with the app."""

    @pulse.app.task(name=ACCUMULATE, base=JobTask, shared=False)  # type: ignore[untyped-decorator]
    def accumulate(*args: Any, index: int | None = None) -> Any:
        return args[index] if index is not None else args
