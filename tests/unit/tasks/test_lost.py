from __future__ import annotations

import pytest
from redis.client import Pipeline

from denyut.tasks import lost as module
from denyut.tasks.lost import PAGE, LostMessages
from denyut.tasks.recovery import Recovery


@pytest.fixture
def bench(make_bench):
    return make_bench(denyut_partitions=1, denyut_queued_timeout=1.0)


@pytest.fixture
def noop(bench):
    @bench.task(name="t.noop")
    def noop(*args):
        return args

    return noop


@pytest.fixture
def lost(bench):
    return lambda: LostMessages(bench.pulse, bench.pulse.store.client)


def test_in_an_empty_queue_nothing_waits(bench, noop, lost):
    job_id = noop.delay().id
    assert not lost().has(job_id)
    bench.messages()
    assert lost().has(job_id)


def test_a_job_that_its_queue_has_passed_over_is_lost_though_others_wait(bench, noop, lost, valkey):
    old = noop.delay("old").id
    bench.messages()
    valkey.zincrby(bench.pulse.keys.partition(0).queued, -5_000_000, old)
    noop.delay("younger")
    bench.drain()
    waiting = noop.delay("waits").id
    assert lost().has(old)
    assert not lost().has(waiting)


def test_a_job_that_is_not_queued_has_no_message_to_lose(bench, noop, lost):
    job_id = noop.delay().id
    bench.drain()
    assert not lost().has(job_id)
    assert not lost().has("ghost")


def test_a_queue_is_asked_once_a_look(bench, noop, lost, monkeypatch):
    ids = [noop.delay(n).id for n in range(20)]
    asked = []
    monkeypatch.setattr(module, "queue_depth", lambda app, queue: asked.append(queue) or 20)
    look = lost()
    assert not any(look.has(job_id) for job_id in ids)
    assert len(asked) == 1


def backlog(bench, valkey, count, *, queue, seconds):
    """Put jobs into the index that have been queued for long; their messages are there."""
    part = bench.pulse.keys.partition(0)
    now = bench.pulse.store.client.time()[0] * 1_000_000
    ids = [f"{queue}-{n}" for n in range(count)]
    pipe = valkey.pipeline(transaction=False)
    for n, job_id in enumerate(ids):
        pipe.hset(bench.pulse.keys.job(job_id).record, mapping={"state": "QUEUED", "queue": queue})
        pipe.zadd(part.queued, {job_id: now - seconds * 1_000_000 + n})
    pipe.rpush(queue, *ids)
    pipe.execute()
    return ids


def test_a_lost_job_is_found_behind_any_number_of_older_jobs_of_another_queue(bench, valkey):
    recovery = Recovery(bench.pulse)
    backlog(bench, valkey, 2 * PAGE + 50, queue="slow", seconds=600)
    [lost_one] = backlog(bench, valkey, 1, queue="other", seconds=300)
    valkey.delete("other")
    found = []
    for _ in range(10):
        looked = dict(recovery._overdue(valkey, 20, long_look=True)[0])
        found.append(lost_one in looked)
        assert set(looked) <= {lost_one}
    assert True in found
    assert found.count(True) >= 2, "again, after it has begun anew"


def test_the_lost_of_the_last_partition_do_not_wait_for_the_backlog_of_the_others(make_bench, valkey):
    bench = make_bench(denyut_queued_timeout=1.0, denyut_recovery_rate=10, denyut_recovery_interval=0.5)

    @bench.task(name="t.noop")
    def noop():
        return 1

    results = [noop.delay() for _ in range(200)]
    keys = bench.pulse.keys
    part = {r.id: keys.partition(keys.partition_of(r.id)) for r in results}
    last = max(results, key=lambda r: part[r.id].partition).id
    for r in results:
        valkey.zincrby(part[r.id].queued, -60_000_000, r.id)
    valkey.zincrby(part[last].queued, -60_000_000, last)
    valkey.hset(
        part[last].counters,
        f"passed_us:{bench.app.conf.task_default_queue}",
        valkey.time()[0] * 10**6 - 70 * 10**6,
    )
    assert dict(Recovery(bench.pulse)._overdue(valkey, 5, long_look=True)[0]) == {last: "lost"}


def test_a_look_of_many_takes_three_round_trips(bench, valkey, monkeypatch):
    backlog(bench, valkey, 50, queue="slow", seconds=600)
    asked = []
    monkeypatch.setattr(module, "queue_depth", lambda app, queue: asked.append(queue) or 50)
    trips = []
    execute = Pipeline.execute
    monkeypatch.setattr(Pipeline, "execute", lambda self, *a, **k: trips.append(1) or execute(self, *a, **k))
    Recovery(bench.pulse)._overdue(valkey, 20, long_look=True)
    assert (len(trips), asked) == (3, ["slow"])
