"""The recovery thread: finds what is left alone, spreads the work, survives errors."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from support import DiedError, wait_until

from denyut.states import State
from denyut.tasks.recovery import Recovery


def noop_task(bench):
    @bench.task(name="t.noop")
    def noop(*args):
        return args

    return noop


def run_and_crash(bench, count):
    from denyut.tasks.claim import Key, claim
    from denyut.tasks.envelope import Stamp

    task = noop_task(bench)
    ids = [task.delay(i).id for i in range(count)]
    for message in bench.messages():
        job_id = message.headers["id"]
        stamp = Stamp.of(message.headers)
        claim(bench.pulse, job_id, task="t.noop", queue="q", stamp=stamp, pid=1, message=lambda: ("", Key()))
        bench.crash(job_id)
    return ids


def test_one_step_publishes_crashed_jobs(bench):
    crashed = run_and_crash(bench, 3)
    assert Recovery(bench.pulse).step() == 3
    assert all(bench.record(i).state == State.QUEUED for i in crashed)
    assert len(bench.messages()) == 3


def test_a_mass_recovery_is_spread_over_rounds(make_bench):
    bench = make_bench(denyut_recovery_rate=10, denyut_recovery_interval=0.5)
    run_and_crash(bench, 12)
    recovery = Recovery(bench.pulse)
    assert [recovery.step() for _ in range(4)] == [5, 5, 2, 0]


def test_a_queued_job_whose_queue_is_empty_is_published_again(make_bench):
    bench = make_bench(denyut_queued_timeout=1.0)
    lost = noop_task(bench).delay(1)
    bench.messages()  # the broker lost it
    recovery = Recovery(bench.pulse)
    wait_until(recovery.step, what="the lost message is published again")
    assert [m.headers["id"] for m in bench.messages()] == [lost.id]


def test_a_job_that_waits_in_a_long_queue_is_left_alone(make_bench):
    bench = make_bench(denyut_queued_timeout=1.0)
    noop_task(bench).delay(1)
    part = [p.queued for p in bench.pulse.keys.all_partitions()]
    client = bench.pulse.store.client
    for key in part:
        for member in client.zrange(key, 0, -1):
            client.zadd(key, {member: 1})
    recovery = Recovery(bench.pulse)
    recovery._last_long_look -= 100
    assert recovery.step() == 0
    assert len(bench.messages()) == 1


def test_the_thread_starts_once_stops_and_starts_again(bench):
    recovery = Recovery(bench.pulse)
    for _ in range(3):
        recovery.start()
        recovery.start()
        before = recovery.rounds
        wait_until(lambda before=before: recovery.rounds > before, what="a round of recovery")
        recovery.stop()


def test_the_thread_survives_a_restart_of_redis(restartable_valkey, pulse):
    one = pulse(url=restartable_valkey.url, denyut_recovery_interval=0.05, denyut_redis_timeout=0.5)
    recovery = Recovery(one)
    recovery.start()
    wait_until(lambda: recovery.rounds > 0, what="the first round")
    restartable_valkey.kill()
    restartable_valkey.start()
    before = recovery.rounds
    wait_until(lambda: recovery.rounds > before, timeout=20, what="a round after the restart")
    recovery.stop()


def test_one_broken_job_does_not_end_the_recovery_of_the_others(bench):
    broken, fine = run_and_crash(bench, 2)
    client = bench.pulse.store.client
    client.hset(bench.pulse.keys.job(broken).record, "msg", "not an envelope")
    recovery = Recovery(bench.pulse)
    recovery.start()
    wait_until(lambda: bench.record(fine).state == State.QUEUED, what="the other job is recovered")
    recovery.stop()
    assert fine in [m.headers["id"] for m in bench.messages()]


def test_a_job_that_its_queue_has_passed_over_is_published_again_and_then_looked_at_less_and_less(make_bench):
    bench = make_bench(denyut_queued_timeout=1.0, denyut_partitions=1)
    task = noop_task(bench)
    lost = task.delay("lost")
    bench.messages()  # the broker lost it
    part = bench.pulse.keys.partition(0)
    client = bench.pulse.store.client
    client.zincrby(part.queued, -5_000_000, lost.id)
    task.delay("younger")
    bench.drain()
    task.delay("keeps the queue from being empty")
    recovery = Recovery(bench.pulse)
    recovery._last_long_look -= 100
    assert recovery.step() == 1
    assert lost.id in [m.headers["id"] for m in bench.messages()]
    seconds, micros = client.time()
    ahead = client.zscore(part.queued, lost.id) - (seconds * 10**6 + micros)
    assert 0 < ahead <= 10**6


def test_many_recoverers_at_once_publish_each_job_once(bench):
    crashed = run_and_crash(bench, 12)
    recoveries = [Recovery(bench.pulse) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        moved = list(pool.map(lambda recovery: recovery.step(), recoveries))
    assert sum(moved) == 12
    assert sorted(m.headers["id"] for m in bench.messages()) == sorted(crashed)
    assert {bench.record(i).crashes for i in crashed} == {1}


def look_for_lost(bench, job_id, seconds):
    """Let a job be queued for ``seconds`` already, and look once."""
    part = bench.pulse.keys.partition(bench.pulse.keys.partition_of(job_id))
    bench.pulse.store.client.zincrby(part.queued, -round(seconds * 1e6), job_id)
    recovery = Recovery(bench.pulse)
    recovery._last_long_look -= 100
    return recovery.step()


def test_a_message_that_the_broker_lost_is_missed_after_ten_seconds_in_an_empty_queue(bench):
    lost = noop_task(bench).delay(1)
    bench.messages()
    assert look_for_lost(bench, lost.id, 9) == 0
    assert look_for_lost(bench, lost.id, 2) == 1
    assert [m.headers["id"] for m in bench.messages()] == [lost.id]


def test_a_long_queue_makes_no_copies(bench):
    task = noop_task(bench)
    ids = [task.delay(n).id for n in range(5)]
    assert sum(look_for_lost(bench, job_id, 50) for job_id in ids) == 0
    assert len(bench.messages()) == 5


def test_a_retry_whose_process_died_before_its_message_was_sent_is_sent(bench, monkeypatch):
    from kombu.messaging import Producer

    @bench.task(name="t.flaky", bind=True)
    def flaky(self):
        if self.request.retries == 0:
            raise self.retry(countdown=0)
        return "done"

    def die(*args, **kwargs):
        raise DiedError

    result = flaky.delay()
    [message] = bench.messages()
    with monkeypatch.context() as patch:
        patch.setattr(Producer, "publish", die)
        with pytest.raises(DiedError):
            bench.run(message)
    assert bench.messages() == []
    assert look_for_lost(bench, result.id, 11) == 1
    bench.drain()
    assert result.get(timeout=5) == "done"
    assert bench.record(result.id).crashes == 0


def test_after_an_outage_of_redis_workers_have_the_time_of_a_lease_to_come_back(make_bench):
    bench = make_bench(denyut_lease_ttl=1.0)
    [crashed] = run_and_crash(bench, 1)
    recovery = Recovery(bench.pulse)
    recovery._outage = True  # as the loop notes it
    begin = time.monotonic()
    assert recovery.step() == 0
    wait_until(recovery.step, what="its recovery")
    assert time.monotonic() - begin >= 1.0
    assert bench.record(crashed).crashes == 1


def test_a_redis_that_was_just_started_with_its_data_is_given_that_time_too(make_bench, restartable_valkey):
    url = restartable_valkey.url
    bench = make_bench(url=url, denyut_lease_ttl=3.0)
    run_and_crash(bench, 1)
    for part in bench.pulse.keys.all_partitions():
        if began := bench.pulse.store.client.get(part.marker):  # long ago: INFO tells whole seconds
            bench.pulse.store.client.set(part.marker, int(began) - 60_000_000)
    restartable_valkey.kill()
    restartable_valkey.start()
    recovery = Recovery(bench.pulse)
    begin = time.monotonic()
    assert recovery.step() == 0
    wait_until(recovery.step, what="its recovery")
    assert time.monotonic() - begin >= 1.0
