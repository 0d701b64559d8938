from __future__ import annotations

from datetime import UTC, datetime
from math import inf, isnan, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from denyut.median.columns import _one_by_one, check_events
from denyut.median.event import Event

# Whatever a caller may put into an event, good and bad.
VALUES = st.one_of(
    st.floats(), st.integers(), st.booleans(), st.none(), st.decimals(), st.fractions(), st.text(max_size=3)
)
IDS = st.one_of(st.text(max_size=3), st.integers(), st.just("x" * 256), st.just("\ud800"))
TIMES = st.one_of(
    st.none(), st.floats(), st.datetimes(timezones=st.just(UTC)), st.datetimes(), st.text(max_size=2)
)
EVENTS = st.one_of(
    st.tuples(VALUES, IDS),
    st.tuples(VALUES, IDS, TIMES),
    st.builds(Event, VALUES, IDS, TIMES),
    st.fixed_dictionaries({"value": VALUES, "event_id": IDS}, optional={"at": TIMES, "color": TIMES}),
    st.text(max_size=2),
    st.none(),
)
GOOD = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**53), 2**53)


def same(a: list[float] | None, b: list[float] | None) -> bool:
    return repr(a) == repr(b)  # NaN equals NaN, and -0.0 differs from 0.0


@given(st.lists(EVENTS, max_size=6))
def test_a_batch_is_checked_exactly_as_its_events_one_by_one(events: list[Any]) -> None:
    columns, errors = check_events(events)
    slow, slow_errors = _one_by_one(events)
    assert errors == slow_errors
    assert same(columns.values, slow.values)
    assert columns.ids == slow.ids
    assert same(columns.at, slow.at)


@given(st.lists(st.tuples(GOOD, st.text(min_size=1, max_size=5), st.floats(0, 1e9)), min_size=1, max_size=9))
def test_the_fast_way_gives_what_the_slow_way_gives(events: list[Any]) -> None:
    fast, slow = check_events(events)[0], _one_by_one(events)[0]
    assert same(fast.values, slow.values)
    assert fast.ids == slow.ids
    assert same(fast.at, slow.at)


def test_bad_events_are_named_by_their_index_and_the_good_ones_kept_in_order() -> None:
    columns, errors = check_events([(1, "a"), (nan, "b"), (2, ""), (3, "c"), (True, "d")])
    assert [error.index for error in errors] == [1, 2, 4]
    assert "not finite" in errors[0].reason
    assert columns.values == [1.0, 3.0]
    assert columns.ids == [b"a", b"c"]


def test_a_batch_whose_sum_overflows_is_good_if_each_value_is() -> None:
    columns, errors = check_events([(1.7e308, "a"), (1.7e308, "b")])
    assert not errors
    assert len(columns) == 2


def test_one_infinity_in_a_batch_whose_sum_is_no_number_is_found() -> None:
    assert [error.index for error in check_events([(inf, "a"), (1.0, "b"), (-inf, "c")])[1]] == [0, 2]


def test_a_batch_in_which_only_some_have_a_time_keeps_those() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    columns, errors = check_events([(1, "a"), (2, "b", at), {"value": 3, "event_id": "c"}])
    assert not errors
    assert columns.at is not None
    assert [isnan(each) for each in columns.at] == [True, False, True]
    assert columns.at[1] == at.timestamp()


def test_a_batch_without_times_has_no_column_for_them() -> None:
    assert check_events([Event(1, "a"), Event(2, "b")])[0].at is None
    assert check_events([(1, "a"), [2, "b"]])[0].at is None


@pytest.mark.parametrize("events", [[], ()])
def test_no_events_are_no_errors(events: Any) -> None:
    columns, errors = check_events(events)
    assert len(columns) == 0
    assert errors == []
