"""A step of a job that a later attempt skips: ``current_job().once(step, function)``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from denyut.errors import LeaseLost
from denyut.scripts import Script
from denyut.tasks.patience import patiently

if TYPE_CHECKING:
    from collections.abc import Callable

    from denyut.tasks.run import JobRun

__all__ = ["MOST_BYTES", "MOST_STEPS", "once"]

ONCE = Script("denyut.tasks", "once")

#: Steps that one job can keep, and bytes of JSON that one of them can return: the record is memory of
#: Redis. For more, keep a position with ``checkpoint``.
MOST_STEPS: Final = 1000
MOST_BYTES: Final = 65_536
_MOST_NAME: Final = 200


def once(run: JobRun, step: str, function: Callable[[], Any]) -> Any:
    """Return what ``function()`` returned when ``step`` was first done (see :meth:`JobRun.once`)."""
    name = _checked(step)
    kept = run.steps.get(name)
    # The first attempt has no predecessor to ask about: one round trip less.
    if kept is None and run.attempt > 1:
        kept = run.steps[name] = _ask(run, name, "")
    if not kept:
        if len(run.steps) - (name in run.steps) >= MOST_STEPS:
            raise _too_many(run, name)
        kept = run.steps[name] = _ask(run, name, _encode(step, function()))
    return json.loads(kept)


def _ask(run: JobRun, step: str, value: str) -> str:
    """Look (``value`` is empty) or keep; return the value that stands, empty if there is none."""
    if run.pulse is None:  # outside a worker there is one attempt, and its memory is enough
        return value
    pulse = run.pulse
    keys, args = pulse.keys.script(run.id), [run.id, run.fence, f"once:{run.task}:{step}", value, MOST_STEPS]
    answer, *rest = patiently(lambda: ONCE(pulse.store.client, keys, args))
    if answer == b"LOST":
        raise LeaseLost(
            f"job {run.id}: attempt {run.attempt} lost its lease; step {step!r} "
            f"{'was done, but that was not kept' if value else 'was not begun'}"
        )
    if answer == b"FULL":
        raise _too_many(run, step)
    return rest[0].decode() if rest else ""


def _too_many(run: JobRun, step: str) -> ValueError:
    return ValueError(
        f"job {run.id}: step {step!r} is one too many; a job keeps at most {MOST_STEPS} steps. "
        "Keep a position with checkpoint() instead"
    )


def _checked(step: Any) -> str:
    if not isinstance(step, str) or not step or len(step.encode()) > _MOST_NAME:
        raise ValueError(f"step={step!r}: must be a name of 1 to {_MOST_NAME} bytes")
    return str(step)


def _encode(step: str, value: Any) -> str:
    text = json.dumps(value, allow_nan=False)
    if len(text) > MOST_BYTES:
        raise ValueError(
            f"step {step!r} returned {len(text)} bytes of JSON; at most {MOST_BYTES} are kept. "
            "Store it elsewhere and return where it is"
        )
    return text
