"""Misfires: what becomes of a job whose time came while no worker was up.

By default it runs once, late. With ``skip`` it ends as EXPIRED if it is later than its grace. The
worker that publishes decides, by the tasks that it knows; one that it does not know follows the
settings.
"""

from __future__ import annotations

import json
from math import isfinite
from typing import TYPE_CHECKING, Any

from denyut.config import MISFIRE
from denyut.errors import ConfigurationError
from denyut.tasks.claim import us

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["check_misfire", "misfire_rules"]


def check_misfire(task: Any) -> None:
    """Check the attributes ``misfire`` and ``misfire_grace`` of a task (or its class).

    Raises:
        ConfigurationError: if one of them cannot be meant.
    """
    policy, grace = getattr(task, "misfire", None), getattr(task, "misfire_grace", None)
    name = getattr(task, "name", None) or getattr(task, "__name__", task)
    if policy is not None and policy not in MISFIRE:
        raise ConfigurationError(f"task {name}: misfire={policy!r}: must be one of {', '.join(MISFIRE)}")
    number = isinstance(grace, int | float) and not isinstance(grace, bool)
    if grace is not None and not (number and isfinite(grace) and grace >= 1):
        raise ConfigurationError(
            f"task {name}: misfire_grace={grace!r}: must be a number of seconds, 1 or more"
        )


def misfire_rules(pulse: Denyut) -> str:
    """Return the rules as ``due.lua`` wants them; empty if no job is ever skipped."""
    rules = {"": _rule(pulse, None)}
    for name, task in list(pulse.app.tasks.items()):
        rule = _rule(pulse, task)
        if rule != rules[""]:
            rules[name] = rule
    return json.dumps(rules) if any(rule is not False for rule in rules.values()) else ""


def _rule(pulse: Denyut, task: Any) -> int | bool:
    policy = getattr(task, "misfire", None) or pulse.settings.misfire
    if policy != "skip":
        return False
    return us(getattr(task, "misfire_grace", None) or pulse.settings.misfire_grace)
