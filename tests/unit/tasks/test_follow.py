"""A job whose key belongs to another takes over that job's outcome."""

from __future__ import annotations

import pytest
from celery import group
from support import wait_until

from denyut.states import State
from denyut.tasks.cancel import end_from_outside
from denyut.tasks.follow import park
from denyut.tasks.schedule import Schedule


@pytest.fixture
def runs():
    return []


@pytest.fixture
def keyed(bench, runs):
    @bench.task(name="t.keyed", idempotency_key="k:{n}")
    def keyed(n):
        runs.append(n)
        if n == 13:
            raise ValueError("unlucky")
        return n

    return keyed


def settle_all(bench, ids):
    schedule = Schedule(bench.pulse)

    def done():
        schedule.look()
        bench.drain()
        return all(bench.record(i).settled for i in ids)

    wait_until(done, what="all jobs settled")


def test_a_follower_takes_the_result_without_running(bench, keyed, runs):
    result = group(keyed.s(1), keyed.s(1), keyed.s(2))()
    settle_all(bench, [r.id for r in result.children])
    assert result.get(timeout=5) == [1, 1, 2]
    assert sorted(runs) == [1, 2]


def test_a_follower_takes_the_failure_too(bench, keyed, runs):
    result = group(keyed.s(13), keyed.s(13))()
    settle_all(bench, [r.id for r in result.children])
    for each in result.children:
        with pytest.raises(ValueError, match="unlucky"):
            each.get(timeout=5)
    assert runs == [13]


def test_a_follower_whose_leader_runs_waits_in_the_store(bench, keyed):
    result = group(keyed.s(1), keyed.s(1))()
    leader, follower = result.children
    first, second = bench.messages()
    assert second.headers["id"] == follower.id
    bench.run(second)
    record = bench.record(follower.id)
    assert (record.state, record.generation) == (State.SCHEDULED, 2)
    bench.run(first)
    settle_all(bench, [leader.id, follower.id])
    assert follower.get(timeout=5) == 1


def test_a_follower_whose_leader_is_gone_runs_itself(bench, keyed, runs):
    result = group(keyed.s(1), keyed.s(1))()
    leader, follower = result.children
    bench.pulse.store.client.delete(bench.pulse.keys.job(leader.id).record)
    bench.run(bench.messages()[1])
    assert follower.get(timeout=5) == 1
    assert runs == [1]
    assert bench.record(follower.id).follows is None, "else the two might come to wait for each other"


def test_a_job_that_was_cancelled_meanwhile_is_not_put_into_the_store(bench, keyed):
    job = keyed.delay(1)
    end_from_outside(bench.pulse, job.id, State.CANCELLED, retention=None, running=False)
    assert not park(bench.pulse, job.id, 1, 5.0)
    assert bench.record(job.id).state == State.CANCELLED
