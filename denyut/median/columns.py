"""Checking a whole batch of events, column by column: under 1 us an event.

Only a batch with anything unusual in it is looked at one by one (:mod:`denyut.median.event`), which
also gives the reasons.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any

from denyut.errors import EventError
from denyut.median.event import EXACT, FIELDS, MAX_EVENT_ID, Event, Refused, check_at, check_event

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Columns", "check_events"]


@dataclass(slots=True)
class Columns:
    """Checked events, one list a field. ``ids`` is UTF-8; ``at`` has NaN for none, or is None for all."""

    values: list[float]
    ids: list[bytes]
    at: list[float] | None = None

    def __len__(self) -> int:
        return len(self.values)


class _Unusual(Exception):
    """No error: this batch takes the slow path."""


def check_events(events: Sequence[Any]) -> tuple[Columns, list[EventError]]:
    """Check a batch of events: :class:`Event`, ``(value, id)``, ``(value, id, at)`` or a dict of these.

    Returns:
        The good ones in their order, and one :class:`EventError` for each of the others.
    """
    try:
        return _all_at_once(events), []
    except (_Unusual, Refused, KeyError, UnicodeEncodeError):
        return _one_by_one(events)


def _all_at_once(events: Sequence[Any]) -> Columns:
    kinds = {*map(type, events)}
    if kinds == {dict}:
        events = _rows(events)
    elif not kinds or not kinds <= {tuple, Event}:
        raise _Unusual
    if {*map(len, events)} not in ({2}, {3}):
        raise _Unusual
    values, ids, *rest = zip(*events, strict=True)
    if not rest or {*map(type, rest[0])} == {type(None)}:
        return Columns(_plain_values(values), _plain_ids(ids))
    return Columns(_plain_values(values), _plain_ids(ids), [*map(check_at, rest[0])])


def _rows(events: Sequence[dict[str, Any]]) -> list[Any]:
    shapes = {*map(tuple, events)}
    if not {name for shape in shapes for name in shape} <= {*FIELDS}:
        raise _Unusual
    return [(each["value"], each["event_id"], each.get("at")) for each in events]


def _plain_values(raw: Sequence[Any]) -> list[float]:
    kinds = {*map(type, raw)}
    if not kinds <= {float, int}:
        raise _Unusual
    if int in kinds and not all(-EXACT <= v <= EXACT for v in raw if type(v) is int):
        raise _Unusual
    values = [v + 0.0 for v in raw]  # -0.0 becomes 0.0, an int a float
    # One NaN or infinity makes the sum one; a sum that overflowed is settled one by one.
    if not (isfinite(sum(values)) or all(map(isfinite, values))):
        raise _Unusual
    return values


def _plain_ids(raw: Sequence[Any]) -> list[bytes]:
    if {*map(type, raw)} != {str}:
        raise _Unusual
    lengths = [*map(len, raw)]
    if not 1 <= min(lengths) <= max(lengths) <= MAX_EVENT_ID:
        raise _Unusual
    return [*map(str.encode, raw)]


def _one_by_one(events: Sequence[Any]) -> tuple[Columns, list[EventError]]:
    good, at, errors = Columns([], []), list[float](), list[EventError]()
    for index, raw in enumerate(events):
        try:
            value, event_id, when = check_event(raw)
        except Refused as refused:
            errors.append(EventError(index, str(refused)))
            continue
        good.values.append(value)
        good.ids.append(event_id)
        at.append(when)
    if not all(map(isnan, at)):
        good.at = at
    return good, errors
