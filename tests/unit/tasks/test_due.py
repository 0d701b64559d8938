"""Jobs whose time has come: published once, or ended because it is too late."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from celery.exceptions import TaskRevokedError
from kombu.exceptions import OperationalError
from support import wait_until

from denyut.states import State
from denyut.tasks.due import move_due
from denyut.tasks.misfire import misfire_rules
from denyut.tasks.recovery import Recovery


def nothing():
    return None


@pytest.fixture
def task(bench):
    @bench.task(name="t.later")
    def later(*args):
        return args

    return later


def part_of(bench, job_id):
    return bench.pulse.keys.partition(bench.pulse.keys.partition_of(job_id))


def make_late(bench, job_id, seconds=0.001):
    """Let the time of a scheduled job have come so many seconds ago."""
    client = bench.pulse.store.client
    now, micros = client.time()
    due = now * 10**6 + micros - round(seconds * 10**6)
    client.hset(bench.pulse.keys.job(job_id).record, "due", due)
    client.zadd(part_of(bench, job_id).schedule, {job_id: due})


def test_what_is_due_is_published_and_what_is_not_stays(bench, task):
    now, later = task.apply_async((1,), countdown=60), task.apply_async((2,), countdown=60)
    make_late(bench, now.id)
    assert move_due(bench.pulse, [now.id, later.id]) == 1
    assert [m.headers["id"] for m in bench.messages()] == [now.id]
    assert (bench.record(now.id).state, bench.record(later.id).state) == (State.QUEUED, State.SCHEDULED)
    client = bench.pulse.store.client
    assert client.zscore(part_of(bench, now.id).held, now.id) is None
    assert client.zscore(part_of(bench, now.id).queued, now.id)


def test_many_schedulers_at_once_publish_each_job_once(bench, task):
    ids = [task.apply_async((i,), countdown=60).id for i in range(40)]
    for job_id in ids:
        make_late(bench, job_id)
    with ThreadPoolExecutor(4) as pool:
        moved = list(pool.map(lambda _: move_due(bench.pulse, ids), range(4)))
    assert sum(moved) == 40
    assert sorted(m.headers["id"] for m in bench.messages()) == sorted(ids)


def test_a_job_whose_scheduler_died_before_it_published_is_published_by_recovery(bench, task, monkeypatch):
    job = task.apply_async(countdown=60)
    make_late(bench, job.id)
    monkeypatch.setattr("denyut.tasks.due._PUBLISH_WITHIN", 0.05)

    def dies(*_, **__):
        raise OperationalError("gone")

    monkeypatch.setattr("denyut.tasks.due._follow_up", dies)
    with pytest.raises(OperationalError):
        move_due(bench.pulse, [job.id])
    assert bench.messages() == []
    wait_until(lambda: Recovery(bench.pulse).step(), what="recovery to publish it")
    assert bench.drain() == 1
    assert job.get(timeout=5) == []


def test_a_broker_that_is_down_moves_nothing(make_bench, valkey_server):
    bench = make_bench(
        broker_url="amqp://guest@127.0.0.1:1//", denyut_redis_url=valkey_server.url,
        task_publish_retry_policy={"max_retries": 0}, broker_connection_timeout=0.5,
        broker_transport_options={"max_retries": 0},
    )  # fmt: skip
    task = bench.task(name="t.later")(nothing)
    job = task.apply_async(countdown=60)
    make_late(bench, job.id)
    with pytest.raises(OperationalError, match="refused"):
        move_due(bench.pulse, [job.id])
    assert bench.record(job.id).state == State.SCHEDULED


def test_a_job_that_is_late_runs_once_by_default(bench, task):
    job = task.apply_async(countdown=60)
    make_late(bench, job.id, 86400)
    assert move_due(bench.pulse, [job.id, job.id], rules=misfire_rules(bench.pulse)) == 1
    assert bench.drain() == 1
    assert job.get(timeout=5) == []


def test_a_job_that_is_to_be_skipped_ends_as_expired_and_its_caller_is_told(make_bench):
    bench = make_bench(denyut_misfire="skip", denyut_misfire_grace=5)
    task = bench.task(name="t.skips")(nothing)
    early, late = task.apply_async(countdown=60), task.apply_async(countdown=60, idempotency_key="k")
    make_late(bench, early.id, 4)
    make_late(bench, late.id, 6)
    assert move_due(bench.pulse, [early.id, late.id], rules=misfire_rules(bench.pulse)) == 2
    assert [m.headers["id"] for m in bench.messages()] == [early.id]
    record = bench.record(late.id)
    assert (record.state, record.settled, record.error[0]) == (State.EXPIRED, True, "Misfired")
    assert late.state == "REVOKED"
    with pytest.raises(TaskRevokedError, match=r"expired: it was due 6\.\d+ s ago, and is skipped from 5 s"):
        late.get(timeout=5)
    assert (bench.counters()["misfired"], bench.counters()["expired"]) == (1, 1)
    assert not task.apply_async(countdown=60, idempotency_key="k").deduplicated  # the key is free


def test_a_retry_is_never_skipped(make_bench):
    bench = make_bench(denyut_misfire="skip", denyut_misfire_grace=5)

    @bench.task(name="t.retries", bind=True)
    def retries(self):
        if not self.request.retries:
            raise self.retry(countdown=60)
        return "done"

    job = retries.delay()
    bench.drain()
    assert bench.record(job.id).state == State.RETRYING
    make_late(bench, job.id, 86400)
    move_due(bench.pulse, [job.id], rules=misfire_rules(bench.pulse))
    bench.drain()
    assert job.get(timeout=5) == "done"


def test_a_scheduler_that_died_before_it_told_of_a_skipped_job_is_made_good_by_recovery(
    make_bench, monkeypatch
):
    bench = make_bench(denyut_misfire="skip", denyut_misfire_grace=5, denyut_lease_ttl=0.5)
    job = bench.task(name="t.skips")(nothing).apply_async(countdown=60)
    make_late(bench, job.id, 6)

    def dies(*_, **__):
        raise OperationalError("gone")

    monkeypatch.setattr("denyut.tasks.due.tell_expired", dies)
    with pytest.raises(OperationalError):
        move_due(bench.pulse, [job.id], rules=misfire_rules(bench.pulse))
    assert job.state == "PENDING"
    wait_until(lambda: Recovery(bench.pulse).step(), what="recovery to tell of it")
    assert job.state == "REVOKED"
    assert bench.record(job.id).settled
    assert bench.messages() == []


def test_one_job_that_cannot_be_moved_does_not_stop_the_others(bench, task):
    broken, unreadable, fine = (task.apply_async(countdown=60) for _ in range(3))
    client = bench.pulse.store.client
    for job in (broken, unreadable, fine):
        make_late(bench, job.id)
    client.hset(bench.pulse.keys.job(unreadable.id).record, "msg", "no envelope")
    client.delete(bench.pulse.keys.job(broken.id).record)
    client.set(bench.pulse.keys.job(broken.id).record, "no hash")
    move_due(bench.pulse, [broken.id, unreadable.id, fine.id])
    assert [m.headers["id"] for m in bench.messages()] == [fine.id]
    now, _ = client.time()
    assert client.zscore(part_of(bench, broken.id).schedule, broken.id) > (now + 30) * 10**6


def test_an_entry_without_a_record_goes(bench, task):
    job = task.apply_async(countdown=60)
    make_late(bench, job.id)
    bench.pulse.store.client.delete(bench.pulse.keys.job(job.id).record)
    assert move_due(bench.pulse, [job.id]) == 0
    assert bench.pulse.store.client.zscore(part_of(bench, job.id).schedule, job.id) is None


def test_lateness_is_counted_in_buckets(bench, task):
    for late in (0.01, 0.2, 0.2, 1000):
        make_late(bench, (job := task.apply_async(countdown=60)).id, late)
        move_due(bench.pulse, [job.id])
    counted = {}
    for part in bench.pulse.keys.all_partitions():
        for name, value in bench.pulse.store.client.hgetall(part.counters).items():
            if name.startswith(b"late_us"):
                counted[name.decode()] = counted.get(name.decode(), 0) + int(value)
    assert 1000.4e6 < counted.pop("late_us_sum") < 1002e6
    assert sum(counted.values()) == 4
    assert counted["late_us_bucket:inf"] == 1
