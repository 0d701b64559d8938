"""What passes the door for later: when it is due and when it expires, by whose clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from denyut.states import State
from denyut.tasks.envelope import Envelope


def test_a_job_for_later_needs_no_broker_yet(make_bench, valkey_server):
    bench = make_bench(broker_url="amqp://guest@127.0.0.1:1//", denyut_redis_url=valkey_server.url)
    task = bench.task(name="t.later")(_nothing)
    job = task.apply_async(countdown=60)
    assert bench.record(job.id).state == State.SCHEDULED


def _nothing():
    return None


def expiry_of(bench, job_id):
    """Seconds from when a job was enqueued to its expiry."""
    record = bench.pulse.keys.job(job_id).record
    expires, at = bench.pulse.store.client.hmget(record, "expires", "queued_at")
    return None if expires is None else (int(expires) - int(at)) / 1e6


@pytest.mark.parametrize("kind", ["seconds", "datetime", "text", "of the task"])
def test_a_job_for_later_knows_when_it_expires_by_redis_clock(bench, kind):
    then = datetime.now(UTC) + timedelta(seconds=90)
    given = {"seconds": {"expires": 90}, "datetime": {"expires": then}, "text": {"expires": then.isoformat()}}
    task = bench.task(name="t.later", **({"expires": 90} if kind == "of the task" else {}))(_nothing)
    job = task.apply_async(countdown=60, **given.get(kind, {}))
    assert expiry_of(bench, job.id) == pytest.approx(90, abs=2)
    part = bench.pulse.keys.partition(bench.pulse.keys.partition_of(job.id))
    assert bench.pulse.store.client.zscore(part.schedule, job.id) == bench.record(job.id).due


def test_one_that_expires_before_it_is_due_is_looked_at_when_it_expires(bench):
    job = bench.task(name="t.later")(_nothing).apply_async(countdown=3600, expires=60)
    part = bench.pulse.keys.partition(bench.pulse.keys.partition_of(job.id))
    ahead = bench.record(job.id).due - bench.pulse.store.client.zscore(part.schedule, job.id)
    assert ahead / 1e6 == pytest.approx(3540, abs=2)


def test_a_retry_keeps_the_expiry_of_its_job(bench):
    @bench.task(name="t.retries", bind=True)
    def retries(self):
        raise self.retry(countdown=60)

    job = retries.apply_async(expires=90)
    bench.drain()
    assert bench.record(job.id).state == State.RETRYING
    assert expiry_of(bench, job.id) == pytest.approx(90, abs=2)


def test_the_hour_of_a_clock_change_is_not_lost(make_bench):
    bench = make_bench(timezone="Europe/Berlin")
    task = bench.task(name="t.later")(_nothing)
    berlin = ZoneInfo("Europe/Berlin")
    half_a_year = (datetime.now(UTC) + timedelta(days=182)).astimezone(berlin)
    job = task.apply_async(eta=half_a_year)
    record = bench.record(job.id)
    assert record.due / 1e6 == pytest.approx(half_a_year.timestamp(), abs=2)
    job = task.apply_async(countdown=182 * 86400)
    message = Envelope.load(bench.pulse.store.client.hget(bench.pulse.keys.job(job.id).record, "msg"))
    told = datetime.fromisoformat(message.headers["denyut_eta"])
    assert told.timestamp() == pytest.approx(half_a_year.timestamp(), abs=2)


@pytest.mark.parametrize("years", [10, 1000])
def test_years_are_no_trouble(bench, years):
    task = bench.task(name="t.later")(_nothing)
    job = task.apply_async(countdown=years * 365.25 * 86400)
    record = bench.record(job.id)
    assert record.due - record.queued_at == pytest.approx(years * 365.25 * 86400 * 1e6, abs=1e3)
    assert bench.pulse.jobs.get(job.id).verdict == "scheduled"
