"""Mixing :class:`JobTask` into the tasks of an app, also those that have a base of their own."""

from __future__ import annotations

from functools import cache
from inspect import isclass
from typing import TYPE_CHECKING, Any

from denyut.tasks.job_task import JobTask

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["is_job", "mix_into_tasks", "mixed"]

_CELERY = "celery."


@cache
def mixed(base: Any) -> Any:
    """Return ``base`` with JobTask mixed in before it; ``base`` itself if it has it already."""
    if issubclass(base, JobTask):
        return base
    return type(base.__name__, (JobTask, base), {"__module__": base.__module__, "abstract": True})


def is_job(pulse: Denyut, name: str) -> bool:
    """Whether the task ``name`` is a job here: by its class, or by ``all_tasks`` if it is not known."""
    task = pulse.app._tasks.get(name)  # noqa: SLF001 - the registry, without finalizing the app
    if task is not None:
        return isinstance(task, JobTask)
    return pulse.all_tasks and not name.startswith(_CELERY)


def mix_into_tasks(pulse: Denyut) -> None:
    """Make every task of the app a job, those registered already and those to come.

    Celery's own tasks (``celery.*``) never are. With ``all_tasks`` False nothing is changed.
    """
    if not pulse.all_tasks:
        return
    app = pulse.app
    make, register = app._task_from_fun, app.register_task  # noqa: SLF001 - where every task is made

    def task_from_fun(fun: Any, name: str | None = None, base: Any = None, **options: Any) -> Any:
        name = name or app.gen_task_name(fun.__name__, fun.__module__)
        if not name.startswith(_CELERY):
            base = mixed(base or app.Task)
        return make(fun, name=name, base=base, **options)

    def register_task(task: Any, **options: Any) -> Any:
        task = task() if isclass(task) else task
        _convert(task)
        return register(task, **options)

    app._task_from_fun = task_from_fun  # noqa: SLF001
    app.register_task = register_task
    for task in list(app._tasks.values()):  # noqa: SLF001
        _convert(task)


def _convert(task: Any) -> None:
    if not (task.name or "").startswith(_CELERY) and not isinstance(task, JobTask):
        base: Any = type(task)
        task.__class__ = mixed(base)
