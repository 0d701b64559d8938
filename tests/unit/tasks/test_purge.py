"""Dead letters outlive the retention of jobs, and are let go in small batches."""

from __future__ import annotations

import pytest
from redis import Redis

from denyut.states import State
from denyut.tasks.purge import purge_letters, purge_old
from denyut.tasks.recovery import Recovery


@pytest.fixture
def fail(bench):
    """Make jobs that fail; returns their ids."""

    @bench.task(name="t.fails", bind=True)
    def fails(self):
        raise ValueError("no")

    def make(count=1, bench=bench):
        ids = [fails.delay().id for _ in range(count)]
        bench.drain()
        return ids

    return make


def index(bench, job_id):
    return bench.pulse.keys.partition(bench.pulse.keys.partition_of(job_id)).dead


def age(bench, job_id, seconds):
    """Let the job have died ``seconds`` ago."""
    client, record = bench.pulse.store.client, bench.pulse.keys.job(job_id).record
    then = int(client.hget(record, "finished_at")) - round(seconds * 1e6)
    client.hset(record, "finished_at", then)
    client.zadd(index(bench, job_id), {job_id: then})


def test_a_dead_letter_outlives_the_retention_of_jobs(bench, fail, valkey: Redis):
    [job_id] = fail()
    assert valkey.pttl(bench.pulse.keys.job(job_id).record) == -1, "it has an owner that removes it: purge"
    assert valkey.zscore(index(bench, job_id), job_id) == int(
        valkey.hget(bench.pulse.keys.job(job_id).record, "finished_at")
    )


def test_a_completed_and_a_cancelled_job_are_no_dead_letters(bench, valkey: Redis):
    from denyut.tasks.cancel import end_from_outside

    @bench.task(name="t.noop")
    def noop(): ...

    done, cancelled = noop.delay(), noop.delay()
    end_from_outside(bench.pulse, cancelled.id, State.CANCELLED, retention=None, running=True)
    bench.drain()
    for result in (done, cancelled):
        assert valkey.zcard(index(bench, result.id)) == 0
        assert valkey.pttl(bench.pulse.keys.job(result.id).record) > 0


def test_what_is_over_its_retention_goes_with_all_that_belongs_to_it(bench, fail, valkey: Redis):
    old, young = fail(2)
    valkey.xadd(bench.pulse.keys.job(old).events, {"type": "x"})
    age(bench, old, 8 * 86400)
    assert purge_old(bench.pulse, valkey) == 1
    job = bench.pulse.keys.job(old)
    assert valkey.exists(job.record, job.telemetry, job.events) == 0
    assert valkey.zscore(index(bench, old), old) is None
    assert bench.record(young).reason
    assert purge_old(bench.pulse, valkey) == 0


def test_a_batch_is_bounded_and_the_rest_follows(bench, fail, valkey: Redis):
    ids = fail(6)
    for job_id in ids:
        age(bench, job_id, 8 * 86400)
    rounds = 0
    while purged := purge_old(bench.pulse, valkey, batch=1):
        assert purged <= bench.pulse.settings.partitions
        rounds += 1
    assert not [job_id for job_id in ids if bench.record(job_id)]
    assert rounds >= 1


def test_of_too_many_the_oldest_go(make_bench, valkey: Redis):
    bench = make_bench(denyut_dead_most=2, denyut_partitions=1)

    @bench.task(name="t.fails")
    def fails():
        raise ValueError("no")

    ids = [fails.delay().id for _ in range(4)]
    bench.drain()
    for n, job_id in enumerate(ids):
        age(bench, job_id, 7200 - n)
    assert purge_old(bench.pulse, valkey) == 2
    assert [bench.record(job_id) is not None for job_id in ids] == [False, False, True, True]


def test_a_letter_younger_than_its_retention_keeps_a_record_without_its_message(bench, fail, valkey: Redis):
    [job_id] = fail()
    assert purge_letters(bench.pulse, [job_id]) == 1
    record = bench.pulse.keys.job(job_id).record
    assert bench.record(job_id).state == State.FAILED
    assert 0 < valkey.pttl(record) <= 3_600_000
    assert not valkey.hexists(record, "msg")
    assert not valkey.hexists(record, "traceback")


def test_a_late_copy_of_a_purged_letter_does_not_run(bench, valkey: Redis):
    runs = []

    @bench.task(name="t.fails")
    def fails():
        runs.append(1)
        raise ValueError("no")

    result = fails.delay()
    [message] = bench.messages()
    bench.run(message)
    purge_letters(bench.pulse, [result.id])
    bench.run(message)
    assert len(runs) == 1


def test_what_is_no_letter_and_what_celery_has_not_heard_of_stays(bench, valkey: Redis, fail):
    [job_id] = fail()
    valkey.hset(bench.pulse.keys.job(job_id).record, "settled", "0")
    assert purge_letters(bench.pulse, [job_id, "nobody"]) == 0
    assert valkey.hexists(bench.pulse.keys.job(job_id).record, "msg")


def test_letters_are_counted_by_budget_and_task_now_and_ever(bench, fail):
    one, _ = fail(2)
    purge_letters(bench.pulse, [one])
    total: dict[bytes, int] = {}
    for part in bench.pulse.keys.all_partitions():
        for name, value in bench.pulse.store.client.hgetall(part.counters).items():
            total[name] = total.get(name, 0) + int(value)
    assert (total[b"dead_now:failures:t.fails"], total[b"buried:failures:t.fails"]) == (1, 2)


def test_recovery_purges_from_time_to_time(bench, fail, monkeypatch):
    [job_id] = fail()
    age(bench, job_id, 8 * 86400)
    recovery = Recovery(bench.pulse)
    recovery.step()
    assert bench.record(job_id), "not at every look"
    monkeypatch.setattr(recovery, "_last_tidy", float("-inf"))
    recovery.step()
    assert bench.record(job_id) is None
