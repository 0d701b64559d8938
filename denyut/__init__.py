"""Denyut: a pulse for Celery.

The public names, and where each lives:

=====================  ==========================================================
``Denyut(app)``        :mod:`denyut.app`: makes a Celery app's tasks into jobs
``JobTask``            :mod:`denyut.tasks.job_task`: the task class of a job
``current_job()``      :mod:`denyut.tasks.run`: the running job, from inside it
``denyut.errors``      :mod:`denyut.errors`: every error this package raises
=====================  ==========================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from denyut.app import Denyut
    from denyut.tasks.job_task import JobTask
    from denyut.tasks.run import current_job

__version__ = "0.1.0"
__all__ = ["Denyut", "JobTask", "__version__", "current_job"]

_HOMES = {"Denyut": "denyut.app", "JobTask": "denyut.tasks.job_task", "current_job": "denyut.tasks.run"}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: ``import denyut`` alone costs nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module 'denyut' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
