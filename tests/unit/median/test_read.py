from __future__ import annotations

from datetime import UTC, datetime, timedelta
from math import ceil, floor, isfinite, nan
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.median.median_stream import Stream, bits

from denyut.errors import ConfigurationError, InvalidStream, StreamDegraded
from denyut.median.read import READ, interpolate, read_stream
from denyut.scripts import slot_tag

FINITE = st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.lists(
    st.one_of(FINITE, st.floats(0, 1), st.sampled_from([1.0, 2.0, 1.7e308, -1.7e308])), max_size=40
)
QUANTILES = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.25, 0.75, 0.9, 0.99, 1.0]))


def linear(values: list[float], q: float) -> float | None:
    """Numpy's default quantile, on a sorted list, in plain Python."""
    if not values:
        return None
    values = sorted(v + 0.0 for v in values)
    place = q * (len(values) - 1)
    a, b, share = values[floor(place)], values[ceil(place)], place - floor(place)
    if a == b or share == 0:
        return a
    if not isfinite(b - a):
        return a * (1 - share) + b * share
    return b - (b - a) * (1 - share) if share >= 0.5 else a + (b - a) * share


@settings(max_examples=150, deadline=None)
@given(VALUES, QUANTILES.filter(lambda q: q != 0.5), st.integers(1, 9))
def test_any_quantile_is_that_of_the_sorted_values(
    new_stream: Any, values: list[float], quantile: float, size: int
) -> None:
    stream: Stream = new_stream()
    for start in range(0, len(values), size):
        stream.apply([(v, f"{start + i}") for i, v in enumerate(values[start : start + size])])
    reading = stream.read(quantile)
    assert bits(reading.value) == bits(linear(values, quantile))
    assert reading.count == len(values)
    assert reading.quantile == quantile
    if values:
        assert reading.lower <= reading.value <= reading.upper
        assert {reading.lower, reading.upper} <= {v + 0.0 for v in values}


@settings(max_examples=60, deadline=None)
@given(VALUES.filter(bool))
def test_quantile_0_is_the_minimum_and_1_the_maximum(new_stream: Any, values: list[float]) -> None:
    stream: Stream = new_stream()
    stream.apply([(v, f"{i}") for i, v in enumerate(values)])
    assert stream.read(0).value == min(values)
    assert stream.read(1).value == max(values)


def test_a_reading_tells_what_it_was_taken_from(stream: Stream) -> None:
    before = datetime.now(UTC) - timedelta(seconds=5)
    stream.apply([(1.0, "a"), (2.0, "b")])
    stream.apply([(10.0, "c"), (20.0, "d"), (1.0, "a"), (3.0, "b")])
    reading = stream.read()
    assert (reading.stream, reading.quantile, reading.health) == (stream.name, 0.5, "ok")
    assert (reading.value, reading.lower, reading.upper) == (6.0, 2.0, 10.0)
    assert (reading.count, reading.version, reading.duplicates, reading.conflicts) == (4, 2, 1, 1)
    assert reading.updated_at is not None
    assert before < reading.updated_at < before + timedelta(seconds=60)


def test_the_middle_of_an_odd_count_is_a_recorded_value(stream: Stream) -> None:
    stream.apply([(1.0, "a"), (2.0, "b"), (4.0, "c")])
    reading = stream.read()
    assert (reading.lower, reading.value, reading.upper) == (2.0, 2.0, 2.0)


def test_a_stream_without_events_reads_as_empty(stream: Stream) -> None:
    for quantile in (0, 0.5, 0.9, 1):
        reading = stream.read(quantile)
        assert (reading.value, reading.lower, reading.upper) == (None, None, None)
        assert (reading.count, reading.version, reading.updated_at, reading.health) == (0, 0, None, "ok")


def test_reading_is_one_round_trip(stream: Stream) -> None:
    stream.apply([(1.0, "a"), (2.0, "b"), (4.0, "c")])
    stream.read()
    before = stream.client.info("commandstats")["cmdstat_evalsha"]["calls"]
    total = stream.client.info("stats")["total_commands_processed"]
    stream.read(0.9)
    assert stream.client.info("commandstats")["cmdstat_evalsha"]["calls"] == before + 1
    inside = 9  # the script's own commands are counted too
    assert stream.client.info("stats")["total_commands_processed"] - total <= inside + 3


@pytest.mark.parametrize("quantile", [-0.1, 1.1, nan, "0.5", None, True])
def test_a_quantile_outside_of_0_and_1_is_refused(stream: Stream, quantile: Any) -> None:
    with pytest.raises(ConfigurationError, match="must be a number from 0"):
        stream.read(quantile)


def test_a_bad_name_is_refused(stream: Stream) -> None:
    with pytest.raises(InvalidStream, match="no braces"):
        read_stream(stream.pulse, "a{b}")


def test_a_state_of_another_format_is_not_read(stream: Stream) -> None:
    stream.apply([(1.0, "a")])
    stream.client.hset(stream.keys.state, "format", 3)
    with pytest.raises(StreamDegraded, match="format 3, which this version"):
        stream.read()


@pytest.mark.parametrize(
    ("a", "b", "share", "expected"),
    [
        (1.0, 3.0, 0.0, 1.0),
        (1.0, 3.0, 0.25, 1.5),
        (1.0, 3.0, 0.75, 2.5),
        (-1.7e308, 1.7e308, 0.25, -8.5e307),
        (7.0, 7.0, 0.3, 7.0),
    ],
)
def test_interpolation_is_linear_also_where_the_distance_overflows(
    a: float, b: float, share: float, expected: float
) -> None:
    assert interpolate(a, b, share) == pytest.approx(expected, rel=1e-15)


@given(FINITE, FINITE, st.floats(0, 1, exclude_max=True))
def test_interpolation_stays_between_its_ends(x: float, y: float, share: float) -> None:
    a, b = sorted((x, y))
    assert a <= interpolate(a, b, share) <= b


def test_keys_of_a_read_share_one_slot(stream: Stream) -> None:
    keys = stream.keys
    names = [keys.lower, keys.upper, keys.state, stream.pulse.keys.shard_streams(stream.shard)]
    assert slot_tag(names) == f"m{stream.shard}"
    assert READ.source.startswith("-- Read any quantile")
