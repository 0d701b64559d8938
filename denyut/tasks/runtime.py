"""How long an attempt may run before its lease is renewed no more (``denyut.signals.watchdog``)."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any

from denyut.errors import ConfigurationError

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["check_max_runtime", "max_runtime_of"]


def check_max_runtime(task: Any) -> None:
    """Check the attribute ``max_runtime`` of a task (or its class). Raises ConfigurationError."""
    value = getattr(task, "max_runtime", None)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is not None and not (number and isfinite(value) and value >= 1):
        name = getattr(task, "name", None) or getattr(task, "__name__", task)
        raise ConfigurationError(
            f"task {name}: max_runtime={value!r}: must be a number of seconds, 1 or more"
        )


def max_runtime_of(pulse: Denyut, task: Any) -> float:
    """Return the seconds for which an attempt of ``task`` keeps its lease; 0: for as long as it runs."""
    own: float | None = task.max_runtime
    return own or pulse.settings.max_runtime or 0.0
