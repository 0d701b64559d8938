from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from math import copysign, inf, isnan, nan
from typing import Any

import pytest

from denyut.errors import InvalidEvent, InvalidStream
from denyut.median.event import Event, Refused, check_at, check_event, check_stream

REFUSED_VALUES = [
    ("12", "value '12' is not a number"),
    (None, "value None is not a number"),
    (True, "value True is not a number"),
    (1j, "value 1j is not a number"),
    (nan, "value nan is not finite"),
    (inf, "value inf is not finite"),
    (-inf, "value -inf is not finite"),
    (2**53 + 1, "beyond 2**53"),
    (-(2**53) - 1, "beyond 2**53"),
    (10**5000, "beyond 2**53"),
    (Decimal("0.1"), "value Decimal('0.1') has no exact double"),
    (Decimal("NaN"), "is not finite"),
    (Decimal("sNaN"), "is not finite"),
    (Decimal("-Infinity"), "is not finite"),
    (Decimal("1e400"), "has no exact double"),
    (Fraction(1, 3), "value Fraction(1, 3) has no exact double"),
    (Fraction(10**400), "has no exact double"),
]
TAKEN_VALUES = [
    (0, 0.0),
    (2**53, 2.0**53),
    (-(2**53), -(2.0**53)),
    (1.7e308, 1.7e308),
    (5e-324, 5e-324),
    (Decimal("0.5"), 0.5),
    (Decimal("1e300"), None),
    (Fraction(3, 4), 0.75),
]


@pytest.mark.parametrize(
    ("value", "reason"), REFUSED_VALUES, ids=[str(i) for i in range(len(REFUSED_VALUES))]
)
def test_a_value_that_no_double_holds_is_refused_with_the_reason(value: Any, reason: str) -> None:
    with pytest.raises(Refused) as refused:
        check_event(Event(value, "e"))
    assert reason in str(refused.value)


@pytest.mark.parametrize(("value", "expected"), TAKEN_VALUES)
def test_a_value_that_a_double_holds_is_taken_as_it_is(value: Any, expected: float | None) -> None:
    if expected is None:
        with pytest.raises(Refused):  # 1e300 in decimal is not the double 1e300
            check_event(Event(value, "e"))
        return
    taken, _, _ = check_event(Event(value, "e"))
    assert type(taken) is float
    assert taken == expected


def test_minus_zero_is_taken_as_zero() -> None:
    for zero in (-0.0, Decimal("-0.0")):
        assert copysign(1, check_event(Event(zero, "e"))[0]) == 1


@pytest.mark.parametrize(
    ("event_id", "reason"),
    [
        ("", "an event id must have 1 to 255 characters, not 0"),
        ("x" * 256, "an event id must have 1 to 255 characters, not 256"),
        (7, "event id 7 is not a string"),
        (b"seven", "event id b'seven' is not a string"),
        (None, "event id None is not a string"),
        ("\ud800", "lone surrogate"),
    ],
)
def test_an_event_id_must_be_a_short_text(event_id: Any, reason: str) -> None:
    with pytest.raises(Refused) as refused:
        check_event((1.0, event_id))
    assert reason in str(refused.value)


@pytest.mark.parametrize("event_id", ["x", "é" * 255, "a b\nc", "{}"])
def test_any_text_up_to_255_characters_is_an_event_id(event_id: str) -> None:
    assert check_event((1.0, event_id))[1] == event_id.encode()


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ({"value": 1, "event_idd": "e"}, "unknown field 'event_idd'; did you mean 'event_id'?"),
        (
            {"value": 1, "event_id": "e", "color": 1},
            "unknown field 'color'; an event has value, event_id, at",
        ),
        ({"event_id": "e"}, "field 'value' is missing"),
        ({"value": 1}, "field 'event_id' is missing"),
        ((1,), "(1,) is no Event"),
        ((1, "e", None, 4), "is no Event"),
        ("ab", "'ab' is no Event"),
        (3.5, "3.5 is no Event"),
    ],
)
def test_anything_but_an_event_is_refused_with_a_hint(raw: Any, reason: str) -> None:
    with pytest.raises(Refused) as refused:
        check_event(raw)
    assert reason in str(refused.value)


def test_an_event_may_be_a_tuple_a_list_or_a_dict() -> None:
    at = 1_700_000_000.25
    expected = (1.5, b"e", at)
    assert check_event(Event(1.5, "e", at)) == expected
    assert check_event((1.5, "e", at)) == expected
    assert check_event([1.5, "e", at]) == expected
    assert check_event({"value": 1.5, "event_id": "e", "at": at}) == expected
    assert isnan(check_event((1.5, "e"))[2])


@pytest.mark.parametrize(
    ("at", "reason"),
    [
        (datetime(2026, 1, 1), "has no time zone; add one"),  # noqa: DTZ001 - that is the point
        (nan, "is not within the years 1 to 9999"),
        (inf, "is not within the years 1 to 9999"),
        (253_402_300_800, "is not within the years 1 to 9999"),
        (-62_135_596_801, "is not within the years 1 to 9999"),
        (10**400, "is not within the years 1 to 9999"),
        (True, "at=True is neither an aware datetime nor seconds"),
        ("2026-01-01", "at='2026-01-01' is neither an aware datetime nor seconds"),
    ],
)
def test_a_time_that_names_no_moment_is_refused(at: Any, reason: str) -> None:
    with pytest.raises(Refused) as refused:
        check_event((1.0, "e", at))
    assert reason in str(refused.value)


def test_a_time_is_taken_as_seconds_since_1970() -> None:
    moment = datetime(2026, 3, 4, 5, 6, 7, 250_000, tzinfo=timezone(timedelta(hours=7)))
    assert check_at(moment) == moment.timestamp()
    assert check_at(0) == 0.0
    assert check_at(datetime.max.replace(tzinfo=UTC)) < 253_402_300_800
    assert check_at(datetime.min.replace(tzinfo=UTC)) == -62_135_596_800.0
    assert isnan(check_at(None))


@pytest.mark.parametrize(
    ("stream", "reason"),
    [
        ("", "1 to 200 characters, not 0"),
        ("x" * 201, "1 to 200 characters, not 201"),
        (None, "must be a string, not None"),
        (b"s", "must be a string, not b's'"),
        ("a{b", "no braces"),
        ("a}b", "no braces"),
        ("a\nb", "no control characters"),
        ("a\x7fb", "no control characters"),
        ("\ud800", "no control characters"),
    ],
)
def test_a_stream_name_that_could_break_a_key_is_refused(stream: Any, reason: str) -> None:
    with pytest.raises(InvalidStream) as refused:
        check_stream(stream)
    assert reason in str(refused.value)
    assert isinstance(refused.value, InvalidEvent)


@pytest.mark.parametrize("stream", ["a", "x" * 200, "tenant:7/latency ms", "größe", "*"])
def test_other_stream_names_are_taken(stream: str) -> None:
    assert check_stream(stream) == stream
