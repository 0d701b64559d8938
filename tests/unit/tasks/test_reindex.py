"""Jobs that have lost their place in an index: put back, and then they go their way."""

from __future__ import annotations

import pytest

from denyut.states import State
from denyut.tasks.recovery import Recovery
from denyut.tasks.reindex import reindex
from denyut.tasks.schedule import Schedule


@pytest.fixture
def task(bench):
    @bench.task(name="t.args")
    def give(*args):
        return args

    return give


def lose(bench, *names):
    """Delete the indexes, as an eviction would."""
    for part in bench.pulse.keys.all_partitions():
        bench.pulse.store.client.delete(*(getattr(part, name) for name in names))


def test_scheduled_jobs_are_put_back_where_they_were(bench, task):
    jobs = [task.apply_async((n,), countdown=n) for n in (60, 3600)]
    short = task.apply_async(countdown=3600, expires=60)
    places = lambda: {  # noqa: E731 - asked twice
        i.decode(): score
        for part in bench.pulse.keys.all_partitions()
        for i, score in bench.pulse.store.client.zrange(part.schedule, 0, -1, withscores=True)
    }
    before = places()
    assert set(before) == {short.id, *(job.id for job in jobs)}
    lose(bench, "schedule")
    assert reindex(bench.pulse) == 3
    assert places() == before
    assert reindex(bench.pulse) == 0


def test_a_job_that_was_due_meanwhile_runs(bench, task):
    job = task.apply_async(("late",), countdown=0.001)
    lose(bench, "schedule")
    Schedule(bench.pulse).look()
    assert bench.messages() == []
    reindex(bench.pulse)
    Schedule(bench.pulse).look()
    bench.drain()
    assert job.get(timeout=5) == ["late"]


def test_queued_and_running_jobs_are_found_again_by_recovery(bench, task):
    queued, running = task.delay(), task.delay()
    bench.messages()
    bench.pulse.store.client.hset(
        bench.pulse.keys.job(running.id).record, mapping={"state": "RUNNING", "fence": 1, "attempt": 1}
    )
    lose(bench, "queued", "leases")
    assert reindex(bench.pulse) == 2
    Recovery(bench.pulse).step()
    assert bench.record(running.id).state == State.QUEUED
    part = bench.pulse.keys.partition(bench.pulse.keys.partition_of(queued.id))
    assert bench.pulse.store.client.zscore(part.queued, queued.id) == bench.record(queued.id).queued_at


def test_what_has_ended_or_is_no_record_is_left_alone(bench, task):
    done = task.delay()
    bench.drain()
    client = bench.pulse.store.client
    client.hset(bench.pulse.keys.job("x").telemetry, "status", "RUNNING")
    client.hset(f"{bench.pulse.settings.prefix}:{{0}}:job:elsewhere", "state", "SCHEDULED")
    lose(bench, "done")
    wrong_place = bench.pulse.keys.partition_of("elsewhere") != 0
    assert reindex(bench.pulse) == (0 if wrong_place else 1)
    assert bench.record(done.id).state == State.COMPLETED


def test_a_prefix_with_the_signs_of_a_glob_is_taken_as_it_is(make_bench):
    bench = make_bench(denyut_prefix="a[b]?")
    bench.task(name="t.nothing")(_nothing).apply_async(countdown=60)
    lose(bench, "schedule")
    assert reindex(bench.pulse) == 1


def _nothing():
    return None
