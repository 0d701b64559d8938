"""The door for events: what is a number, an event id, a time and a stream name, and what is refused.

A value is kept as a double, and only if that changes nothing: integers beyond 2**53 and decimals or
fractions without an exact double are refused, not rounded. -0.0 is taken as 0.0. NaN and infinities
are refused here, because Redis would accept some of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from difflib import get_close_matches
from math import isfinite, nan
from numbers import Integral, Rational, Real
from typing import Any, NamedTuple
from unicodedata import category

from denyut.errors import InvalidStream

__all__ = ["Event", "Refused", "check_at", "check_event", "check_stream"]

MAX_EVENT_ID = 255
MAX_STREAM = 200
EXACT = 2**53
# Seconds since 1970 of the years 1 to 9999; the last double below the year 10000.
_FIRST, _LAST = -62_135_596_800.0, 253_402_300_799.99997
FIELDS = ("value", "event_id", "at")


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


class Refused(Exception):
    """Why an event is not taken: becomes the reason of an EventError."""


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


def check_event(raw: Any) -> tuple[float, bytes, float]:
    """Return value, UTF-8 id and time (NaN for none) of one event.

    Raises:
        Refused: with the reason.
    """
    value, event_id, at = _parts(raw)
    return _check_value(value), _check_id(event_id), check_at(at)


def _parts(raw: Any) -> Sequence[Any]:
    if isinstance(raw, Mapping):
        for name in raw:
            if name not in FIELDS:
                close = get_close_matches(str(name), FIELDS, n=1)
                hint = f"did you mean {close[0]!r}?" if close else f"an event has {', '.join(FIELDS)}"
                raise Refused(f"unknown field {_show(name)}; {hint}")
        for name in FIELDS[:2]:
            if name not in raw:
                raise Refused(f"field {name!r} is missing")
        return raw["value"], raw["event_id"], raw.get("at")
    if not isinstance(raw, tuple | list) or len(raw) not in (2, 3):
        raise Refused(f"{_show(raw)} is no Event, (value, event_id), (value, event_id, at) or dict")
    return (*raw, None)[: len(FIELDS)]


def _check_value(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real | Decimal):
        raise Refused(f"value {_show(value)} is not a number")
    if isinstance(value, Integral):
        value = int(value)
        if abs(value) > EXACT:
            raise Refused(f"value {_show(value)} is beyond 2**53: a double would round it")
        return float(value)
    if isinstance(value, Decimal | Rational):
        return _exact(value)
    number = float(value)
    if not isfinite(number):
        raise Refused(f"value {_show(value)} is not finite")
    if number != value:
        raise Refused(f"value {_show(value)} has no exact double; round it yourself")
    return number + 0.0


def _exact(value: Decimal | Rational) -> float:
    if isinstance(value, Decimal) and not value.is_finite():
        raise Refused(f"value {_show(value)} is not finite")
    try:
        number = float(value)
    except OverflowError:
        number = nan
    if number != value:
        raise Refused(f"value {_show(value)} has no exact double; round it yourself, as with float()")
    return number + 0.0


def _check_id(event_id: Any) -> bytes:
    if not isinstance(event_id, str):
        raise Refused(f"event id {_show(event_id)} is not a string")
    if not 1 <= len(event_id) <= MAX_EVENT_ID:
        raise Refused(f"an event id must have 1 to {MAX_EVENT_ID} characters, not {len(event_id)}")
    try:
        return event_id.encode()
    except UnicodeEncodeError:
        raise Refused(f"event id {_show(event_id)} is not valid text: it has a lone surrogate") from None


def check_at(at: Any) -> float:
    """Return an event time in seconds since 1970, NaN for none. Raises Refused."""
    if at is None:
        return nan
    if isinstance(at, datetime):
        if at.utcoffset() is None:
            raise Refused(f"at={at!r} has no time zone; add one, such as at.replace(tzinfo=UTC)")
        seconds = min(at.timestamp(), _LAST)
    elif isinstance(at, int | float) and not isinstance(at, bool):
        seconds = float(at) if abs(at) < EXACT else nan
    else:
        raise Refused(f"at={_show(at)} is neither an aware datetime nor seconds since 1970")
    if not _FIRST <= seconds <= _LAST:
        raise Refused(f"at={_show(at)} is not within the years 1 to 9999")
    return seconds


def _show(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # Python refuses to print integers of more than 4300 digits
        text = f"<{type(value).__name__} too long to print>"
    return text if len(text) <= 60 else f"{text[:57]}..."  # noqa: PLR2004 - a line of a log
