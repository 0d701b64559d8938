"""Another time for a job that waits: earlier, later, now; any other is left as it is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from support import wait_until

from denyut.states import State
from denyut.tasks.cancel import end_from_outside
from denyut.tasks.reschedule import RESCHEDULE, reschedule
from denyut.tasks.schedule import Schedule


@pytest.fixture
def task(bench):
    @bench.task(name="t.later")
    def later(*args):
        return args

    return later


def score(bench, job_id):
    part = bench.pulse.keys.partition(bench.pulse.keys.partition_of(job_id))
    return bench.pulse.store.client.zscore(part.schedule, job_id)


def seconds_to(bench, us):
    seconds, micros = bench.pulse.store.client.time()
    return us / 1e6 - seconds - micros / 1e6


@pytest.mark.parametrize("seconds", [10, 3600, 365 * 86400], ids=["earlier", "later", "in a year"])
def test_a_job_gets_another_time(bench, task, seconds):
    job = task.apply_async(countdown=60)
    before = bench.record(job.id)
    done = reschedule(bench.pulse, job.id, countdown=seconds)
    assert (done.changed, done.state) == (True, State.SCHEDULED)
    record = bench.record(job.id)
    assert record.due == done.due == score(bench, job.id)
    assert seconds_to(bench, done.due) == pytest.approx(seconds, abs=2)
    assert record.version > before.version


@pytest.mark.parametrize(
    "now", [{"countdown": 0}, {"countdown": -5}, {"eta": datetime(2020, 1, 1, tzinfo=UTC)}]
)
def test_a_job_for_now_goes_out_at_the_next_look(bench, task, now):
    job = task.apply_async(("x",), countdown=3600)
    assert reschedule(bench.pulse, job.id, **now).changed
    Schedule(bench.pulse).look()
    bench.drain()
    assert job.get(timeout=5) == ["x"]


def test_an_eta_may_be_a_datetime_or_text(bench, task):
    job = task.apply_async(countdown=60)
    then = datetime.now(UTC) + timedelta(hours=2)
    for eta in (then, then.isoformat()):
        assert reschedule(bench.pulse, job.id, eta=eta).changed
        assert bench.record(job.id).due / 1e6 == pytest.approx(then.timestamp(), abs=2)


def test_a_retry_that_waits_gets_another_time(bench):
    @bench.task(name="t.retries", bind=True)
    def retries(self):
        if self.request.retries:
            return "done"
        raise self.retry(countdown=3600)

    job = retries.delay()
    bench.drain()
    assert reschedule(bench.pulse, job.id, countdown=0).state == State.RETRYING
    Schedule(bench.pulse).look()
    bench.drain()
    assert job.get(timeout=5) == "done"


@pytest.mark.parametrize("how", ["queued", "running", "completed", "cancelled"])
def test_a_job_that_does_not_wait_is_left_as_it_is(bench, task, how):
    job = task.delay() if how != "cancelled" else task.apply_async(countdown=60)
    if how == "completed":
        bench.drain()
        wait_until(lambda: bench.record(job.id).settled)
    if how == "running":
        bench.pulse.store.client.hset(bench.pulse.keys.job(job.id).record, "state", "RUNNING")
    if how == "cancelled":
        end_from_outside(bench.pulse, job.id, State.CANCELLED, retention=None, running=False)
    before = bench.record(job.id)
    done = reschedule(bench.pulse, job.id, countdown=5)
    assert (done.changed, done.state) == (False, State(how.upper()))
    assert bench.record(job.id) == before
    assert score(bench, job.id) is None


def test_an_unknown_job_is_none(bench):
    done = reschedule(bench.pulse, "nobody", countdown=5)
    assert (done.changed, done.state, done.due) == (False, None, None)


def test_a_call_that_is_sent_twice_answers_the_same(bench, task):
    job = task.apply_async(countdown=60)
    keys, client = bench.pulse.keys.script(job.id), bench.pulse.store.client
    first = RESCHEDULE(client, keys, [job.id, 0, "token"])
    assert RESCHEDULE(client, keys, [job.id, 0, "token"]) == first
    Schedule(bench.pulse).look()
    changed, state, due, _ = RESCHEDULE(client, keys, [job.id, 0, "token"])
    assert (changed, state, due) == (1, b"QUEUED", first[2])


def test_the_expiry_stays_and_is_told(bench, task):
    job = task.apply_async(countdown=60, expires=90)
    done = reschedule(bench.pulse, job.id, countdown=3600)
    assert seconds_to(bench, done.expires) == pytest.approx(90, abs=2)
    assert score(bench, job.id) == done.expires  # looked at when it expires


@pytest.mark.parametrize(
    "given",
    [{}, {"eta": "2030-01-01T00:00:00", "countdown": 1}, {"countdown": float("nan")}, {"countdown": 1e300},
     {"eta": "soon"}],
)  # fmt: skip
def test_a_time_that_cannot_be_meant_is_refused(bench, task, given):
    job = task.apply_async(countdown=60)
    with pytest.raises(ValueError, match=r"must|exactly one"):
        reschedule(bench.pulse, job.id, **given)


def test_a_job_that_is_cancelled_before_its_time_leaves_the_schedule_and_never_runs(bench, task):
    job = task.apply_async(countdown=60)
    assert end_from_outside(bench.pulse, job.id, State.CANCELLED, retention=None, running=False)[0]
    assert score(bench, job.id) is None
    Schedule(bench.pulse).look()
    assert bench.messages() == []
