"""One atomic look at a partition."""

from __future__ import annotations

import pytest

from denyut.monitoring.partition import Partition, read_partitions
from denyut.states import TERMINAL


def look(desk, number: int = 0) -> Partition:
    return read_partitions(desk.pulse, desk.client)[number]


def test_an_unused_partition_is_empty(desk):
    before = desk.now()
    found = look(desk)
    assert before <= found.now_us <= desk.now()
    assert (found.counters, found.leases, found.lapsed) == ({}, {}, {})
    assert (found.scheduled, found.queued, found.held, found.done) == (0, 0, 0, 0)
    assert (found.first_due, found.first_queued) == (None, None)


def test_sizes_firsts_and_counters_are_those_of_the_indexes(make_desk):
    desk = make_desk(denyut_partitions=1)
    keys = desk.pulse.keys.partition(0)
    desk.client.zadd(keys.schedule, {"a": 50, "b": 40})
    desk.client.zadd(keys.queued, {"c": 30, "d": 20, "e": 10})
    desk.client.zadd(keys.held, {"c": 99})
    desk.client.zadd(keys.done, {f"z{n}": n for n in range(4)})
    desk.count(claimed=3)
    found = look(desk)
    assert (found.scheduled, found.queued, found.held, found.done) == (2, 3, 1, 4)
    assert (found.first_due, found.first_queued) == (40, 10)
    assert found.counters == {"claimed:t.work": 3}


def test_times_keep_every_microsecond(make_desk):
    desk = make_desk(denyut_partitions=1)
    deadline = desk.ago(-3) | 1
    desk.index("leases", "j", deadline)
    desk.index("queued", "j", deadline)
    found = look(desk)
    assert (found.leases, found.first_queued) == ({"j": deadline}, deadline)


def test_a_lease_has_lapsed_when_its_deadline_is_over_by_redis_clock(make_desk):
    desk = make_desk(denyut_partitions=1)
    desk.index("leases", "live", desk.ago(-60))
    desk.index("leases", "dead", desk.ago(1))
    assert list(look(desk).lapsed) == ["dead"]


@pytest.mark.parametrize("state", sorted(TERMINAL))
def test_a_job_that_was_accepted_and_has_ended_is_not_missing(make_desk, state):
    desk = make_desk(denyut_partitions=1)
    desk.count(enqueued=2, adopted=1, **{state.lower(): 3})
    found = look(desk)
    assert (found.accepted, found.ended, found.missing) == (3, 3, 0)


def test_a_job_that_was_accepted_and_is_in_no_index_is_missing(make_desk):
    desk = make_desk(denyut_partitions=1)
    desk.count(enqueued=5, completed=1, retried=9)
    desk.index("queued", "a", 1)
    desk.index("schedule", "b", 1)
    desk.index("leases", "c", 1)
    assert look(desk).missing == 1


def test_locks_are_counted_until_their_time_is_over(make_desk):
    desk = make_desk(denyut_partitions=1)
    desk.client.zadd(desk.pulse.keys.partition(0).locks, {"a": desk.ago(-60), "b": desk.ago(1)})
    assert look(desk).locks == 1
