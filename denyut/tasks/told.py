"""What a task has told of itself, as fields of its telemetry."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any

from denyut.tasks.slots import SlotState, current_block

if TYPE_CHECKING:
    from denyut.tasks.slot import Slot

__all__ = ["FIELDS", "last_told", "told"]

#: The fields, in the order of :func:`told`.
FIELDS = ("progress_seq", "done", "total", "progress", "unit", "stage_seq", "stage")


def told(job: SlotState) -> tuple[Any, ...]:
    """Return the values of FIELDS; numbers as text, exact, and empty where nothing was told."""
    part = job.done / job.total if job.done is not None and job.total else None
    progress = (job.progress_seq, _number(job.done), _number(job.total), _number(part), job.unit)
    return (*progress, job.stage_seq, job.stage)


def last_told(slot: Slot | None) -> list[Any]:
    """Return fields and values, in turn, of what the attempt in this process' slot told last.

    Empty where there is no slot, or it told nothing.
    """
    if slot is None or not slot.told:
        return []
    block = current_block()
    state = block.read(slot.index) if block is not None else None
    if not isinstance(state, SlotState):
        return []
    return [item for pair in zip(FIELDS, told(state), strict=True) for item in pair]


def _number(value: float | None) -> str:
    if value is None or not isfinite(value):
        return ""
    return str(int(value)) if value.is_integer() else repr(value)
