from __future__ import annotations

import pytest
from facts import (
    conflicting_events,
    exported_events,
    recoveries,
    summaries,
    suppressed_deliveries,
    suppressed_events,
)
from truth import Summary

from denyut.median.columns import check_events
from denyut.median.packing import encode
from denyut.median.tasks import apply_message
from denyut.monitoring.exporter import serve


def apply(pulse, stream, events):
    apply_message(pulse, stream, encode(check_events(events)[0]))


def test_every_stream_is_summarized_and_what_came_again_is_counted(pulse):
    made = pulse()
    apply(made, "s", [(1.0, "a"), (2.0, "b"), (9.0, "c")])
    apply(made, "s", [(1.0, "a"), (7.0, "b")])
    apply(made, "t", [(5.0, "a")])
    assert summaries(made) == {"s": Summary(3, 2.0, pytest.approx(8.3)), "t": Summary(1, 5.0, 5.0)}
    assert suppressed_events(made) == 1
    assert conflicting_events(made) == 1


def test_deliveries_that_stepped_aside_are_counted_for_the_task(pulse):
    made = pulse()
    for partition, name, count in ((0, "busy:t", 2), (3, "done:t", 1), (3, "stale:t", 1), (3, "done:u", 9)):
        made.store.client.hset(made.keys.partition(partition).counters, name, count)
    assert suppressed_deliveries(made, "t") == 4


def test_each_recovery_is_told_in_seconds(pulse):
    made = pulse()
    for job_id, kind, data in (
        ("a", "crashed", 5),
        ("a", "recovered", 2_500_000),
        ("b", "recovered", 40_000),
    ):
        made.store.client.xadd(made.keys.job(job_id).events, {"type": kind, "data": data})
    assert recoveries(made, ["a", "b", "c"]) == [0.04, 2.5]


def test_the_exporter_is_asked_for_the_events_it_has_counted(pulse):
    made = pulse()
    apply(made, "s", [(1.0, "a"), (2.0, "b"), (1.0, "a")])
    apply(made, "t", [(5.0, "a")])
    server, thread = serve(made, "127.0.0.1", 0)
    try:
        assert exported_events(f"http://127.0.0.1:{server.server_port}/metrics") == 3
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
