from __future__ import annotations

import random
import statistics
import struct
from math import isfinite
from multiprocessing import get_context
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.median.median_stream import Stream, bits, write_shuffled

from denyut.errors import StaleWriter, StreamDegraded
from denyut.median.apply import APPLY
from denyut.median.packing import digest
from denyut.scripts import slot_tag

EDGES = [0.0, -0.0, 5e-324, -5e-324, 1.7e308, -1.7e308, 2.0**53, 0.1, 1 / 3, 2.2250738585072014e-308]
VALUES = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(0, 1),
    st.floats(-20, 20).map(lambda x: 2.718281828**x),
    st.sampled_from([1.0, 2.0, 3.0]),
    st.sampled_from(EDGES),
)
# Few ids, so that events come again, with the same value and with another.
EVENTS = st.lists(st.tuples(VALUES, st.integers(0, 30).map("e{}".format)), max_size=40)


def expected_median(values: list[float]) -> float | None:
    """Python's own median; where that overflows, the mean of the halves."""
    if not values:
        return None
    median = statistics.median([v + 0.0 for v in values])
    if isfinite(median):
        return median
    low, high = statistics.median_low(values), statistics.median_high(values)
    return low / 2 + high / 2


def split(data: st.DataObject, events: list[Any]) -> list[list[Any]]:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(events)), max_size=5)))
    parts = [events[a:b] for a, b in zip([0, *cuts], [*cuts, len(events)], strict=True)]
    return [part for part in parts if part]


class Oracle:
    """The stream as plain Python: the first value of an id stands."""

    def __init__(self) -> None:
        self.values: dict[str, float] = {}
        self.accepted = self.duplicates = self.conflicts = 0

    def apply(self, events: list[tuple[float, str]]) -> None:
        for value, event_id in events:
            if event_id not in self.values:
                self.values[event_id] = value
                self.accepted += 1
            elif self.values[event_id] == value:
                self.duplicates += 1
            else:
                self.conflicts += 1


@settings(max_examples=120, deadline=None)
@given(EVENTS, st.data())
def test_the_median_is_bit_equal_to_pythons_after_every_batch_whatever_comes_again(
    new_stream: Any, events: list[tuple[float, str]], data: st.DataObject
) -> None:
    stream: Stream = new_stream()
    batches = split(data, events)
    redelivered = data.draw(st.lists(st.sampled_from(batches), max_size=3)) if batches else []
    order = data.draw(st.permutations([*batches, *redelivered]))
    oracle = Oracle()
    for version, batch in enumerate(order, start=1):
        done = stream.apply(batch)
        oracle.apply(batch)
        stream.check()
        assert bits(done.median) == bits(expected_median([*oracle.values.values()]))
        assert done.version == version
        assert done.count == len(oracle.values)
    reading = stream.read()
    assert bits(reading.value) == bits(expected_median([*oracle.values.values()]))
    assert (reading.count, reading.duplicates, reading.conflicts) == (
        len(oracle.values),
        oracle.duplicates,
        oracle.conflicts,
    )


def numbers(kind: str, n: int) -> list[float]:
    rng = random.Random(kind)
    return {
        "uniform": lambda: [rng.random() for _ in range(n)],
        "lognormal": lambda: [rng.lognormvariate(3, 2) for _ in range(n)],
        "ascending": lambda: [float(i) / 3 for i in range(n)],
        "descending": lambda: [-float(i) / 3 for i in range(n)],
        "few distinct": lambda: [float(rng.randrange(4)) for _ in range(n)],
        "one value": lambda: [0.1] * n,
        "edges": lambda: [rng.choice(EDGES) for _ in range(n)],
    }[kind]()


@pytest.mark.parametrize("size", [1, 7, 100, 1999])
@pytest.mark.parametrize(
    "kind", ["uniform", "lognormal", "ascending", "descending", "few distinct", "one value", "edges"]
)
def test_every_distribution_gives_the_exact_median_in_batches_of_any_size(
    stream: Stream, kind: str, size: int
) -> None:
    values = numbers(kind, 40 * size if size < 100 else 4000)
    for start in range(0, len(values), size):
        part = values[start : start + size]
        done = stream.apply([(v, f"{start + i}") for i, v in enumerate(part)])
        assert bits(done.median) == bits(expected_median(values[: start + len(part)]))
    stream.check()


@pytest.mark.parametrize("kind", ["uniform", "ascending", "descending"])
def test_a_batch_of_many_thousands_is_more_than_lua_can_unpack_and_still_applied(
    stream: Stream, kind: str
) -> None:
    values = numbers(kind, 20_000)
    stream.apply([(v, f"a{i}") for i, v in enumerate(values)])
    done = stream.apply([(v + 5000, f"b{i}") for i, v in enumerate(values)])
    assert bits(done.median) == bits(expected_median([*values, *(v + 5000 for v in values)]))
    stream.check()


@pytest.mark.parametrize("values", [[], [1.5], [1.5, 2.5], [1.7e308, 1.6e308], [-5e-324, 0.0], [-0.0, -0.0]])
def test_the_smallest_streams(stream: Stream, values: list[float]) -> None:
    if values:
        assert bits(stream.apply([(v, str(i)) for i, v in enumerate(values)]).median) == bits(
            expected_median(values)
        )
    assert bits(stream.read().value) == bits(expected_median(values))


def test_minus_zero_of_a_producer_that_did_not_check_is_taken_as_zero(stream: Stream) -> None:
    call(stream, struct.pack(">d", -0.0), digest("a"))
    assert bits(stream.read().value) == bits(0.0)


def test_one_id_with_two_values_in_one_batch_lands_in_one_heap_only(stream: Stream) -> None:
    stream.apply([(float(v), f"old{v}") for v in range(10)])
    done = stream.apply([(100.0, "x"), (-100.0, "x"), (100.0, "x")])
    assert (done.accepted, done.duplicates, done.conflicts) == (1, 1, 1)
    stream.check()
    assert stream.values().count(100.0) == 1
    assert -100.0 not in stream.values()


def test_the_first_value_of_an_id_stands_and_the_others_are_counted(stream: Stream) -> None:
    stream.apply([(1.0, "a"), (2.0, "b"), (3.0, "c")])
    done = stream.apply([(2.0, "a"), (3.0, "c"), (9.0, "d")])
    assert (done.accepted, done.duplicates, done.conflicts) == (1, 1, 1)
    assert sorted(stream.values()) == [1.0, 2.0, 3.0, 9.0]
    assert (stream.read().duplicates, stream.read().conflicts) == (1, 1)


def test_the_state_tells_everything_of_the_batch_that_wrote_it(stream: Stream) -> None:
    stream.apply([(1.0, "first")])
    stream.apply([(4.0, "second"), (2.5, "third")])
    state = stream.state()
    assert {k: state[k] for k in ("format", "version", "count", "median", "lower_top", "upper_top")} == {
        "format": "1", "version": "2", "count": "3", "median": "2.5", "lower_top": "2.5", "upper_top": "4",
    }  # fmt: skip
    assert state["last_event_id"] == "third"
    assert int(state["updated_at"]) > 1_600_000_000_000_000
    shard = stream.client.hgetall(stream.pulse.keys.shard_counters(stream.shard))
    assert int(shard[b"accepted"]) >= 3
    assert stream.name.encode() in stream.client.smembers(stream.pulse.keys.shard_streams(stream.shard))


def test_a_batch_with_nothing_new_keeps_the_last_event(stream: Stream) -> None:
    stream.apply([(1.0, "a"), (2.0, "b")])
    stream.apply([(1.0, "a")])
    assert stream.state()["last_event_id"] == "b"


def test_a_batch_sent_twice_in_a_row_with_one_token_is_answered_alike(
    stream: Stream,
) -> None:
    first = stream.apply([(1.0, "a"), (1.0, "a"), (2.0, "a")], token="t1")
    assert stream.apply([(1.0, "a"), (1.0, "a"), (2.0, "a")], token="t1") == first
    assert stream.read().version == 1
    assert stream.apply([(1.0, "a")], token="t").duplicates == 1  # a part of the token is another token


def test_a_lower_fence_than_the_last_writers_is_refused_and_changes_nothing(stream: Stream) -> None:
    stream.apply([(1.0, "a")], fence=5)
    stream.apply([(2.0, "b")], fence=5)
    stream.apply([(3.0, "c")], fence=2**53 - 1)
    before = stream.state()
    for fence in (5, 0, None):
        with pytest.raises(StaleWriter, match=f"has fence {2**53 - 1}, this writer's is"):
            stream.apply([(9.0, "z")], fence=fence)
    assert stream.state() == before


def test_without_any_fence_writers_need_none(stream: Stream) -> None:
    stream.apply([(1.0, "a")])
    assert stream.apply([(2.0, "b")]).count == 2


def test_a_state_of_another_format_is_left_alone(stream: Stream) -> None:
    stream.apply([(1.0, "a")])
    stream.client.hset(stream.keys.state, "format", 2)
    with pytest.raises(StreamDegraded, match="was written in format 2"):
        stream.apply([(2.0, "b")])


def lose_an_event(stream: Stream) -> None:
    stream.client.zpopmin(stream.keys.lower)


def lose_a_heap(stream: Stream) -> None:
    stream.client.delete(stream.keys.upper)


def lose_the_state(stream: Stream) -> None:
    stream.client.delete(stream.keys.state)


def lose_everything(stream: Stream) -> None:
    stream.client.delete(stream.keys.lower, stream.keys.upper, stream.keys.state)


def move_an_event(stream: Stream) -> None:
    stream.client.zadd(stream.keys.upper, dict([stream.client.zpopmax(stream.keys.lower)[0]]))


def change_a_value(stream: Stream) -> None:
    stream.client.zincrby(stream.keys.lower, 0.25, stream.client.zrange(stream.keys.lower, -1, -1)[0])


def swap_the_order(stream: Stream) -> None:
    stream.client.zincrby(stream.keys.upper, -100, stream.client.zrange(stream.keys.upper, 0, 0)[0])
    stream.client.hset(stream.keys.state, "upper_top", "-97")


def change_the_median(stream: Stream) -> None:
    stream.client.hset(stream.keys.state, "median", "7")


DAMAGE = [
    (lose_an_event, "the state counts 4 events, the heaps hold 3"),
    (lose_a_heap, "the state counts 4 events, the heaps hold 2"),
    (lose_the_state, "the state counts 0 events, the heaps hold 4"),
    (lose_everything, "the state is gone"),
    (move_an_event, "the heaps hold 1 and 3 events"),
    (change_a_value, "the tops are 2.25 and 3, the state says 2 and 3"),
    (swap_the_order, "the lower top 2 is above the upper top -97"),
    (change_the_median, "the median is 2.5, the state says 7"),
]


@pytest.mark.parametrize(("damage", "reason"), DAMAGE, ids=lambda d: getattr(d, "__name__", ""))
def test_heaps_that_something_else_has_changed_are_neither_written_nor_read(
    stream: Stream, damage: Any, reason: str
) -> None:
    stream.apply([(1.0, "a"), (2.0, "b"), (3.0, "c"), (4.0, "d")])
    damage(stream)
    before = (stream.state(), stream.heaps())
    with pytest.raises(StreamDegraded, match=reason):
        stream.apply([(9.0, "z")])
    with pytest.raises(StreamDegraded, match=reason):
        stream.read()
    assert (stream.state(), stream.heaps()) == before


def test_a_key_of_a_wrong_type_fails_before_anything_is_written(stream: Stream) -> None:
    counters = stream.pulse.keys.shard_counters(stream.shard)
    stream.apply([(1.0, "a")])
    kept = stream.client.dump(counters)
    stream.client.set(counters, "in the way")
    before = (stream.state(), stream.heaps())
    try:
        with pytest.raises(Exception, match="WRONGTYPE"):
            stream.apply([(2.0, "b")])
    finally:
        stream.client.restore(counters, 0, kept, replace=True)
    assert (stream.state(), stream.heaps()) == before


def test_keys_of_one_call_share_one_slot(stream: Stream) -> None:
    assert slot_tag(key_names(stream)) == f"m{stream.shard}"


def test_two_processes_that_apply_the_same_events_at_once_still_give_the_exact_median(
    stream: Stream, valkey_server: Any
) -> None:
    values = numbers("lognormal", 3000)
    context = get_context("spawn")
    args = (valkey_server.url, stream.pulse.keys.prefix, stream.name)
    writers = [context.Process(target=write_shuffled, args=(*args, seed, values)) for seed in (1, 2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
        assert writer.exitcode == 0
    stream.check()
    reading = stream.read()
    assert bits(reading.value) == bits(expected_median(values))
    assert (reading.count, reading.duplicates, reading.conflicts) == (3000, 3000, 0)


def key_names(stream: Stream) -> list[str]:
    keys, shard = stream.pulse.keys, stream.shard
    mine = stream.keys
    return [mine.lower, mine.upper, mine.state, keys.shard_streams(shard), keys.shard_counters(shard)]


def call(stream: Stream, values: bytes, ids: bytes) -> Any:
    return APPLY(stream.client, key_names(stream), ["", stream.name, "", "last", values, ids])
