"""The door for events: what is a number, an event id, a time and a stream name, and what is refused.

A value is kept as a double, and only if that changes nothing: integers beyond 2**53 and decimals or
fractions without an exact double are refused, not rounded. -0.0 is taken as 0.0. NaN and infinities
are refused here, because Redis would accept some of them.

Whole batches are checked column by column (under 1 us an event); only a batch that fails is looked
at one by one, for the reasons.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from difflib import get_close_matches
from math import isfinite, nan
from numbers import Integral, Rational, Real
from typing import Any, NamedTuple
from unicodedata import category

from denyut.errors import EventError, InvalidStream

__all__ = ["Columns", "Event", "check_events", "check_stream"]

MAX_EVENT_ID = 255
MAX_STREAM = 200
EXACT = 2**53
# Seconds since 1970 of the years 1 to 9999; the last double below the year 10000.
_FIRST, _LAST = -62_135_596_800.0, 253_402_300_799.99997
_FIELDS = ("value", "event_id", "at")


class Event(NamedTuple):
    """One number of a stream.

    Args:
        value: any real number that a double holds exactly.
        event_id: the caller's stable name for this event, 1 to 255 characters: it counts once.
        at: when it happened: an aware datetime, or seconds since 1970; None if not known.
    """

    value: Any
    event_id: str
    at: datetime | float | None = None


@dataclass(slots=True)
class Columns:
    """Checked events, one list a field. ``ids`` is UTF-8; ``at`` has NaN for none, or is None for all."""

    values: list[float]
    ids: list[bytes]
    at: list[float] | None = None

    def __len__(self) -> int:
        return len(self.values)


class _Refused(Exception):  # noqa: N818 - a reason on its way into an EventError
    pass


def check_stream(stream: Any) -> str:
    """Return ``stream`` if it can name a stream.

    Raises:
        InvalidStream: saying what no name may be.
    """
    if not isinstance(stream, str):
        raise InvalidStream(f"a stream name must be a string, not {_show(stream)}")
    if not 1 <= len(stream) <= MAX_STREAM:
        raise InvalidStream(f"a stream name must have 1 to {MAX_STREAM} characters, not {len(stream)}")
    if any(c in "{}" or category(c) in ("Cc", "Cs") for c in stream):
        raise InvalidStream(f"stream name {stream!r} must have no braces and no control characters")
    return stream


def check_events(events: Sequence[Any]) -> tuple[Columns, list[EventError]]:
    """Check a batch of events: :class:`Event`, ``(value, id)``, ``(value, id, at)`` or a dict of these.

    Returns:
        The good ones in their order, and one :class:`EventError` for each of the others.
    """
    columns = _all_at_once(events)
    return (columns, []) if columns is not None else _one_by_one(events)


def _all_at_once(events: Sequence[Any]) -> Columns | None:
    """Return the events as columns if all of them are plain and good, else None."""
    kinds = {*map(type, events)}
    if kinds == {dict}:
        if not {name for shape in {*map(tuple, events)} for name in shape} <= {*_FIELDS}:
            return None
        try:
            events = [(each["value"], each["event_id"], each.get("at")) for each in events]
        except KeyError:
            return None
    elif not events or not kinds <= {tuple, Event}:
        return None
    width = {*map(len, events)}
    if len(width) != 1 or not width <= {2, 3}:
        return None
    raw_values, raw_ids, *rest = zip(*events, strict=True)
    values, ids = _plain_values(raw_values), _plain_ids(raw_ids)
    if values is None or ids is None:
        return None
    if not rest or {*map(type, rest[0])} == {type(None)}:
        return Columns(values, ids)
    try:
        return Columns(values, ids, [*map(_check_at, rest[0])])
    except _Refused:
        return None


def _plain_values(raw: Sequence[Any]) -> list[float] | None:
    kinds = {*map(type, raw)}
    if not kinds <= {float, int}:
        return None
    if int in kinds and not all(-EXACT <= v <= EXACT for v in raw if type(v) is int):
        return None
    values = [v + 0.0 for v in raw]  # -0.0 becomes 0.0, an int a float
    # One NaN or infinity makes the sum one; a sum that overflowed is settled one by one.
    return values if isfinite(sum(values)) or all(map(isfinite, values)) else None


def _plain_ids(raw: Sequence[Any]) -> list[bytes] | None:
    if {*map(type, raw)} != {str}:
        return None
    lengths = [*map(len, raw)]
    if not 1 <= min(lengths) <= max(lengths) <= MAX_EVENT_ID:
        return None
    try:
        return [*map(str.encode, raw)]
    except UnicodeEncodeError:
        return None


def _one_by_one(events: Sequence[Any]) -> tuple[Columns, list[EventError]]:
    good, at, errors = Columns([], []), list[float](), list[EventError]()
    for index, raw in enumerate(events):
        try:
            value, event_id, when = _parts(raw)
            row = (_check_value(value), _check_id(event_id), _check_at(when))
        except _Refused as refused:
            errors.append(EventError(index, str(refused)))
            continue
        good.values.append(row[0])
        good.ids.append(row[1])
        at.append(row[2])
    if any(when == when for when in at):  # noqa: PLR0124 - NaN, the sign for no time, differs from itself
        good.at = at
    return good, errors


def _parts(raw: Any) -> Sequence[Any]:
    if isinstance(raw, Mapping):
        for name in raw:
            if name not in _FIELDS:
                close = get_close_matches(str(name), _FIELDS, n=1)
                hint = f"did you mean {close[0]!r}?" if close else f"an event has {', '.join(_FIELDS)}"
                raise _Refused(f"unknown field {_show(name)}; {hint}")
        for name in _FIELDS[:2]:
            if name not in raw:
                raise _Refused(f"field {name!r} is missing")
        return raw["value"], raw["event_id"], raw.get("at")
    if not isinstance(raw, tuple | list) or len(raw) not in (2, 3):
        raise _Refused(f"{_show(raw)} is no Event, (value, event_id), (value, event_id, at) or dict")
    return (*raw, None)[: len(_FIELDS)]


def _check_value(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real | Decimal):
        raise _Refused(f"value {_show(value)} is not a number")
    if isinstance(value, Integral):
        value = int(value)
        if abs(value) > EXACT:
            raise _Refused(f"value {_show(value)} is beyond 2**53: a double would round it")
        return float(value)
    if isinstance(value, Decimal | Rational):
        return _exact(value)
    number = float(value)
    if not isfinite(number):
        raise _Refused(f"value {_show(value)} is not finite")
    if number != value:
        raise _Refused(f"value {_show(value)} has no exact double; round it yourself")
    return number + 0.0


def _exact(value: Decimal | Rational) -> float:
    if isinstance(value, Decimal) and not value.is_finite():
        raise _Refused(f"value {_show(value)} is not finite")
    try:
        number = float(value)
    except OverflowError:
        number = nan
    if number != value:
        raise _Refused(f"value {_show(value)} has no exact double; round it yourself, as with float()")
    return number + 0.0


def _check_id(event_id: Any) -> bytes:
    if not isinstance(event_id, str):
        raise _Refused(f"event id {_show(event_id)} is not a string")
    if not 1 <= len(event_id) <= MAX_EVENT_ID:
        raise _Refused(f"an event id must have 1 to {MAX_EVENT_ID} characters, not {len(event_id)}")
    try:
        return event_id.encode()
    except UnicodeEncodeError:
        raise _Refused(f"event id {_show(event_id)} is not valid text: it has a lone surrogate") from None


def _check_at(at: Any) -> float:
    """Return the event time in seconds since 1970, NaN for none."""
    if at is None:
        return nan
    if isinstance(at, datetime):
        if at.utcoffset() is None:
            raise _Refused(f"at={at!r} has no time zone; add one, such as at.replace(tzinfo=UTC)")
        seconds = min(at.timestamp(), _LAST)
    elif isinstance(at, int | float) and not isinstance(at, bool):
        seconds = float(at) if abs(at) < EXACT else nan
    else:
        raise _Refused(f"at={_show(at)} is neither an aware datetime nor seconds since 1970")
    if not _FIRST <= seconds <= _LAST:
        raise _Refused(f"at={_show(at)} is not within the years 1 to 9999")
    return seconds


def _show(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # Python refuses to print integers of more than 4300 digits
        text = f"<{type(value).__name__} too long to print>"
    return text if len(text) <= 60 else f"{text[:57]}..."  # noqa: PLR2004 - a line of a log
