"""Uniqueness: for how long a key answers for its job, for whom, and what becomes of a second job.

Four independent choices, each an attribute of the task, an option of one call or a message header, in
the order call, header, task:

- ``unique_until``: the step of its job from which the key is free: ``start`` (of its first attempt),
  ``completed``, or ``retention`` (the default: when the completed job is forgotten).
- ``unique_for``: the key answers at least for so many seconds after its job was enqueued; alone, the step
  is ``completed``.
- ``unique_scope``: whose key it is, such as a tenant's: the same key in another scope is another key.
- ``on_conflict``: what an enqueue does that finds the key taken.

A key is free when its step has come *and* its period is over. A job that ends in any other way than
completed frees it at once. A job without a key has its arguments for one.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches
from math import isfinite
from typing import TYPE_CHECKING, Any

from denyut.errors import ConfigurationError, InvalidUniqueness
from denyut.tasks.fingerprint import fingerprint
from denyut.tasks.key import check_key, from_template

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "ON_CONFLICT",
    "OPTIONS",
    "PLAIN",
    "UNTIL",
    "Uniqueness",
    "check_uniqueness",
    "key_of_arguments",
    "uniqueness_of",
]

#: From which step of its job on a key is free.
UNTIL = ("start", "completed", "retention")

#: What an enqueue does that finds its key taken.
ON_CONFLICT = ("return", "raise", "replace", "run_again")

#: The four names, as attributes of a task, options of a call and headers of a message.
OPTIONS = ("unique_for", "unique_until", "unique_scope", "on_conflict")


@dataclass(frozen=True, slots=True, kw_only=True)
class Uniqueness:
    """The policy of one job's key.

    ``until`` and ``period`` (seconds) as above, ``""`` and None where not set; ``given`` says that any of
    the four was set at all.
    """

    until: str = ""
    period: float | None = None
    scope: str | None = None
    on_conflict: str = "return"
    given: bool = False

    @property
    def period_us(self) -> str:
        """The period in whole microseconds, as scripts take it; empty if there is none."""
        return "" if self.period is None else str(round(self.period * 1_000_000))

    @property
    def fields(self) -> list[str]:
        """Return what a record keeps of it: names and values."""
        kept = {"until": self.until, "unique_us": self.period_us}
        return [part for pair in kept.items() if pair[1] for part in pair]

    @property
    def headers(self) -> dict[str, Any]:
        """Return what a message says of it, so that a record that Redis has lost can be made again."""
        said = {
            "unique_until": self.until or None,
            "unique_for": self.period,
            "unique_scope": self.scope,
            "on_conflict": self.on_conflict if self.on_conflict != "return" else None,
        }
        return {name: value for name, value in said.items() if value is not None}


#: A key without a policy of its own.
PLAIN = Uniqueness()


def uniqueness_of(
    task: Any, options: dict[str, Any], args: Sequence[Any], kwargs: Mapping[str, Any], *, retention: float
) -> Uniqueness:
    """Return the policy of one call, or of a plain client's message.

    Takes the four names out of ``options``.

    Args:
        task: the task; None if it is not known here.
        options: of the call: the four names, and ``headers``.
        args: of the call, which the scope's template of a task is filled with.
        kwargs: of the call.
        retention: seconds for which the completed job is remembered.

    Raises:
        InvalidUniqueness: one of them cannot be meant. Nothing was enqueued.
        InvalidKey: the scope is no valid text, or the template does not fit the arguments.
    """
    headers = options.get("headers") or {}
    found: dict[str, Any] = {}
    for name in OPTIONS:
        value = options.pop(name, None)
        value = headers.get(name) if value is None else value
        if value is not None:
            found[name] = value
        elif (value := getattr(task, name, None)) is not None:
            template = name == "unique_scope"
            found[name] = from_template(value, task.run, args, kwargs) if template else value
    if not found:
        return PLAIN
    policy = _policy(found, InvalidUniqueness, "")
    if policy.period is not None and policy.period > retention:
        raise InvalidUniqueness(
            f"unique_for={policy.period:g} s is longer than the {retention:g} s for which a job is "
            "remembered: its result would be gone while its key still answers; set retention on the task, "
            "or denyut_retention"
        )
    return policy


def check_uniqueness(task: Any) -> None:
    """Check the four attributes of a task (or its class). Raises ConfigurationError."""
    found = {name: value for name in OPTIONS if (value := getattr(task, name, None)) is not None}
    if found:
        name = getattr(task, "name", None) or getattr(task, "__name__", task)
        _policy(found, ConfigurationError, f"task {name}: ")


def key_of_arguments(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Return the key of a job that is to be unique and has none: its arguments.

    Raises:
        Unfingerprintable: they have no canonical form.
    """
    return f"args:{fingerprint(args, kwargs)}"


def _policy(found: Mapping[str, Any], error: type[ValueError], where: str) -> Uniqueness:
    until, scope = found.get("unique_until"), found.get("unique_scope")
    on_conflict = found.get("on_conflict", "return")
    _one_of("unique_until", until, UNTIL, error, where)
    _one_of("on_conflict", on_conflict, ON_CONFLICT, error, where)
    period = _period(found.get("unique_for"), error, where)
    if scope is not None:
        check_key(scope, "a unique_scope")
    if until == "start" and on_conflict == "run_again":
        raise error(
            f"{where}on_conflict='run_again' needs a key that answers while its job runs, and with "
            "unique_until='start' it is free by then: say on_conflict='replace', or another unique_until"
        )
    if until is None and period is not None:
        until = "completed"
    until = "" if until in (None, "retention") else until
    return Uniqueness(until=until, period=period, scope=scope, on_conflict=on_conflict, given=True)


def _period(value: Any, error: type[ValueError], where: str) -> float | None:
    if value is None:
        return None
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not number or not isfinite(seconds) or seconds <= 0:
        raise error(f"{where}unique_for={value!r}: must be a number of seconds, or a timedelta, above 0")
    return float(seconds)


def _one_of(name: str, value: Any, known: Sequence[str], error: type[ValueError], where: str) -> None:
    if value is None or (isinstance(value, str) and value in known):
        return
    close = get_close_matches(str(value), known, 1)
    hint = f"did you mean {close[0]!r}?" if close else f"must be one of {', '.join(known)}"
    raise error(f"{where}{name}={value!r}: {hint}")
