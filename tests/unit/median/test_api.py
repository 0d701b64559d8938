from __future__ import annotations

import statistics
from collections.abc import Iterator
from datetime import UTC, datetime
from math import nan
from typing import Any

import pytest
from unit.median.median_stream import drain, take_messages

from denyut.errors import ConfigurationError, InvalidEvent, InvalidStream
from denyut.median.event import Event
from denyut.median.packing import decode
from denyut.median.routing import APPLY_TASK, median_queue, shard_of


def test_a_recorded_event_is_read_after_it_was_applied(pulse: Any) -> None:
    made = pulse()
    made.median.record("orders", 12.5, event_id="o-1")
    assert made.median.read("orders").value is None
    assert drain(made) == 1
    assert made.median.read("orders").value == 12.5


def test_events_go_out_in_messages_of_a_batch_to_the_queue_of_their_stream(pulse: Any) -> None:
    made = pulse(denyut_median_batch=100)
    assert made.median.record_many("orders", ((float(i), f"o-{i}") for i in range(250))) == 250
    messages = take_messages(made)
    queue = median_queue(made, shard_of("orders", 16)).name
    assert {name for name, _ in messages} == {queue}
    batches = [decode(message.payload[0][1]) for _, message in messages]
    assert sorted(batch.count for batch in batches) == [50, 100, 100]
    assert {message.headers["task"] for _, message in messages} == {APPLY_TASK}
    assert "('orders', <100 events>)" in {message.headers["argsrepr"] for _, message in messages}


def test_a_batch_message_is_a_job(pulse: Any) -> None:
    made = pulse()
    made.median.record("orders", 1, event_id="o-1")
    (_, message) = take_messages(made)[0]
    assert made.store.client.hget(made.keys.job(message.headers["id"]).record, "task") == APPLY_TASK.encode()


def test_all_forms_of_events_may_be_mixed(pulse: Any) -> None:
    made = pulse()
    at = datetime(2026, 1, 1, tzinfo=UTC)
    events = [Event(1, "a"), (2, "b"), (3, "c", at), {"value": 4, "event_id": "d"}, [5, "e"]]
    assert made.median.record_many("mixed", iter(events)) == 5
    drain(made)
    reading = made.median.read("mixed")
    assert (reading.count, reading.value) == (5, 3.0)


def test_the_time_of_an_event_travels_with_it(pulse: Any) -> None:
    made = pulse()
    made.median.record("timed", 1, event_id="a", at=1_700_000_000.5)
    ((_, message),) = take_messages(made)
    assert decode(message.payload[0][1]).times() == (1_700_000_000.5,)


def test_by_default_one_bad_event_keeps_the_whole_batch_back(pulse: Any) -> None:
    made = pulse(denyut_median_batch=2)
    with pytest.raises(InvalidEvent) as refused:
        made.median.record_many("orders", [(1, "a"), (2, "b"), (nan, "c"), (3, "d"), (4, "")])
    assert [error.index for error in refused.value.errors] == [2, 4]
    assert refused.value.sent == 0
    assert take_messages(made) == []


def test_the_good_events_are_sent_if_asked_for_and_the_bad_ones_raised_all_the_same(pulse: Any) -> None:
    made = pulse(denyut_median_batch=2)
    with pytest.raises(InvalidEvent, match=r"2 invalid event\(s\), 3 sent: event 2: value nan") as refused:
        made.median.record_many(
            "o", [(1, "a"), (2, "b"), (nan, "c"), (3, "d"), (4, "")], on_invalid="send_valid"
        )
    assert refused.value.sent == 3
    drain(made)
    assert made.median.read("o").count == 3


@pytest.mark.parametrize(
    ("choice", "hint"),
    [("send-valid", "did you mean 'send_valid'?"), ("x", "known are 'refuse', 'send_valid'")],
)
def test_an_unknown_choice_is_an_error_with_a_hint(pulse: Any, choice: str, hint: str) -> None:
    with pytest.raises(ConfigurationError, match=f"on_invalid='{choice}'; ") as refused:
        pulse().median.record_many("s", [(1, "a")], on_invalid=choice)
    assert hint in str(refused.value)


@pytest.mark.parametrize("events", [Event(1, "a"), {"value": 1, "event_id": "a"}, "ab"])
def test_one_event_given_as_many_is_refused_with_a_hint(pulse: Any, events: Any) -> None:
    with pytest.raises(InvalidEvent, match="use record for one"):
        pulse().median.record_many("s", events)


def test_a_bad_stream_or_event_is_refused_before_anything_is_sent(pulse: Any) -> None:
    made = pulse()
    with pytest.raises(InvalidStream, match="no braces"):
        made.median.record("a{b", 1, event_id="x")
    with pytest.raises(InvalidEvent, match="event 0: value True is not a number"):
        made.median.record("s", True, event_id="x")
    assert take_messages(made) == []


def test_no_events_send_no_message(pulse: Any) -> None:
    made = pulse()
    assert made.median.record_many("s", []) == 0
    assert take_messages(made) == []


def test_all_streams_are_listed_with_their_counts(pulse: Any) -> None:
    made = pulse()
    assert made.median.streams() == {}
    for n, name in enumerate(["zebra", "größe", "a b"], start=1):
        made.median.record_many(name, [(i, f"{name}-{i}") for i in range(n)])
    drain(made)
    assert list(made.median.streams().items()) == [("a b", 3), ("größe", 2), ("zebra", 1)]


def test_recording_all_again_after_a_failure_midway_counts_everything_once(pulse: Any) -> None:
    made = pulse(denyut_median_batch=10)

    def events(upto: int) -> Iterator[tuple[float, str]]:
        yield from ((float(i), f"e{i}") for i in range(upto))

    made.median.record_many("s", events(20))
    made.median.record_many("s", events(35))
    drain(made)
    reading = made.median.read("s")
    assert (reading.count, reading.duplicates) == (35, 20)
    assert reading.value == statistics.median(range(35))


def test_an_eager_app_applies_at_once(pulse: Any) -> None:
    made = pulse(task_always_eager=True)
    made.median.record("s", 3, event_id="a")
    assert made.median.read("s").value == 3.0


def test_without_jobs_for_all_tasks_events_are_recorded_too(pulse: Any) -> None:
    made = pulse(all_tasks=False)
    made.median.record("s", 3, event_id="a")
    drain(made)
    assert made.median.read("s").value == 3.0
