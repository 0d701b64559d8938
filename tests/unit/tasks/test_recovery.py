"""The recovery thread: finds what is left alone, spreads the work, survives errors."""

from __future__ import annotations

from support import wait_until

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
