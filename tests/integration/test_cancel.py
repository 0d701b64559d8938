"""Jobs of real workers are cancelled, in each state, and bodies that do not want to stop are stopped."""

from __future__ import annotations

import time

import pytest
from celery import chord, group
from celery.exceptions import ChordError, TaskRevokedError
from support import wait_until

from denyut.states import State
from denyut.tasks.cancellation import Outcome
from denyut.tasks.record import FIELDS, JobRecord

APP = "apps.cancelling"


class Jobs:
    """The jobs of a node's app, and what they have told."""

    def __init__(self, node, valkey) -> None:
        self.node, self.tasks, self.pulse, self.redis = node, node.module, node.app.denyut, valkey

    def record(self, job_id: str) -> JobRecord | None:
        raw = self.pulse.store.client.hmget(self.pulse.keys.job(job_id).record, *FIELDS)
        return JobRecord.from_redis(job_id, raw)

    def told(self, what: str) -> int:
        return int(self.redis.hget("told", what) or 0)

    def begun(self, times: int = 1) -> None:
        wait_until(lambda: self.told("begun") >= times, timeout=20, what="the body to begin")

    def reach(self, job_id: str, state: State, timeout: float = 20.0) -> JobRecord:
        def there():
            record = self.record(job_id)
            return record if record and record.state == state else None

        return wait_until(there, timeout=timeout, what=f"{job_id} to be {state}")

    def settled(self, job_id: str) -> JobRecord:
        def there():
            record = self.record(job_id)
            return record if record and record.settled else None

        return wait_until(there, timeout=20, what=f"{job_id} to be settled")


@pytest.fixture
def jobs(worker, valkey):
    return lambda **options: Jobs(worker(APP, **options), valkey)


def is_revoked(result, match="cancelled by tests: no longer wanted"):
    with pytest.raises(TaskRevokedError, match=match):
        result.get(timeout=20)
    return result.state == "REVOKED"


def cancel(jobs, job_id):
    return jobs.pulse.jobs.cancel(job_id, reason="no longer wanted", by="tests")


@pytest.mark.parametrize("name", ["sleeps", "waits_for_a_lock", "backtracks", "catches_exceptions"])
def test_a_running_body_is_stopped_within_two_seconds_whatever_it_waits_for(jobs, name):
    jobs = jobs(concurrency=1)
    result = getattr(jobs.tasks, name).delay()
    jobs.begun()
    began = time.monotonic()
    assert cancel(jobs, result.id).outcome == Outcome.REQUESTED
    record = jobs.reach(result.id, State.CANCELLED)
    assert time.monotonic() - began < 2.0
    assert record.error == ("JobCancelled", "cancelled by tests: no longer wanted")
    assert is_revoked(result)
    assert jobs.settled(result.id).crashes == 0
    assert jobs.told("swallowed") == 0
    assert jobs.tasks.tells_if_it_runs.delay().get(timeout=20) == "ran", "the worker goes on"


@pytest.mark.parametrize("name", ["swallows_everything", "sits_in_c"])
def test_a_body_that_does_not_stop_is_killed_and_cancelled_not_crashed(jobs, name):
    jobs = jobs(concurrency=1)
    result = getattr(jobs.tasks, name).delay()
    jobs.begun()
    began = time.monotonic()
    assert cancel(jobs, result.id).outcome == Outcome.REQUESTED
    jobs.reach(result.id, State.CANCELLED)
    assert 1.0 <= time.monotonic() - began < 4.0, "the grace of this app is one second"
    assert is_revoked(result)
    record = jobs.settled(result.id)
    assert (record.crashes, record.attempt) == (0, 1)
    assert jobs.tasks.tells_if_it_runs.delay().get(timeout=20) == "ran", "the worker goes on"
    assert jobs.told("begun") == 1, "it does not run again"


def test_a_body_may_take_its_time_to_clean_up_and_is_not_disturbed(jobs):
    jobs = jobs(concurrency=1, env={"GRACE": "10"})
    result = jobs.tasks.cleans_up.delay(1.0)
    jobs.begun()
    cancel(jobs, result.id)
    jobs.reach(result.id, State.CANCELLED)
    assert jobs.told("clean") == 1


def test_a_body_that_swallows_it_and_returns_is_cancelled_all_the_same(jobs):
    jobs = jobs(concurrency=1)
    result = jobs.tasks.swallows_once.delay()
    jobs.begun()
    cancel(jobs, result.id)
    assert is_revoked(result)
    assert jobs.settled(result.id).state == State.CANCELLED


def test_a_soft_time_limit_and_a_cancellation_work_in_one_body(jobs):
    jobs = jobs(concurrency=1)
    result = jobs.tasks.has_a_soft_limit.delay()
    wait_until(lambda: jobs.told("limit"), timeout=20, what="the soft limit")
    cancel(jobs, result.id)
    assert is_revoked(result)
    assert jobs.settled(result.id).state == State.CANCELLED


def test_jobs_in_every_state_of_waiting_are_cancelled_and_none_ever_runs(jobs):
    jobs = jobs(concurrency=1, env={"PREFETCH": "10"})
    runner = jobs.tasks.sleeps.delay()
    jobs.begun()
    retrying = jobs.tasks.retries.delay(60)
    prefetched, scheduled = (
        jobs.tasks.tells_if_it_runs.delay(),
        jobs.tasks.tells_if_it_runs.apply_async(countdown=1),
    )
    part = jobs.pulse.keys.partition(jobs.pulse.keys.partition_of(prefetched.id))
    wait_until(lambda: jobs.redis.zscore(part.held, prefetched.id), what="the message in hand")
    for result in (prefetched, scheduled):
        assert cancel(jobs, result.id).outcome == Outcome.CANCELLED
        assert is_revoked(result)
    assert cancel(jobs, runner.id).outcome == Outcome.REQUESTED
    jobs.reach(retrying.id, State.RETRYING)
    assert cancel(jobs, retrying.id).outcome == Outcome.CANCELLED
    assert cancel(jobs, retrying.id).outcome == Outcome.ENDED
    last = jobs.tasks.tells_if_it_runs.apply_async(countdown=2)
    assert last.get(timeout=30) == "ran", "later than any of the others would have"
    assert jobs.told("ran") == 1
    assert jobs.told("begun") == 2


def test_the_chord_of_a_cancelled_member_fails_and_names_it(jobs):
    jobs = jobs(concurrency=2)
    body = chord([jobs.tasks.sleeps.s(), jobs.tasks.tells_if_it_runs.s()])(jobs.tasks.tells_if_it_runs.s())
    member = body.parent.children[0]
    jobs.begun()
    cancel(jobs, member.id)
    wait_until(body.ready, timeout=20, what="the chord to fail")
    error = body.get(propagate=False)
    assert isinstance(error, ChordError)
    assert member.id in str(error)
    assert "no longer wanted" in str(error)


def test_a_cancelled_job_calls_its_error_link_once(jobs):
    jobs = jobs(concurrency=1)
    result = jobs.tasks.sleeps.apply_async(link_error=jobs.tasks.on_error.s())
    jobs.begun()
    cancel(jobs, result.id)
    wait_until(lambda: jobs.told(f"error of {result.id}"), timeout=20, what="the error link")
    jobs.settled(result.id)
    assert jobs.tasks.tells_if_it_runs.delay().get(timeout=20) == "ran"
    assert jobs.told(f"error of {result.id}") == 1


def test_a_released_job_runs_again_though_its_first_attempt_sits_in_c(jobs):
    jobs = jobs(concurrency=2)
    result = jobs.tasks.runs_into_a_second_attempt.delay()
    jobs.begun()
    first = jobs.record(result.id)
    jobs.pulse.jobs.release(result.id, reason="stuck", by="tests")
    assert result.get(timeout=20) == 2
    wait_until(lambda: "lost its lease and did not stop" in jobs.node.logs(), timeout=20, what="the kill")
    wait_until(lambda: first.pid not in jobs.node.pool_pids, timeout=20, what="the old process to be gone")
    record = jobs.settled(result.id)
    assert (record.state, record.attempt, record.crashes) == (State.COMPLETED, 2, 0)


def test_on_a_solo_pool_a_body_is_stopped_by_the_next_beat(jobs):
    jobs = jobs(pool="solo", env={"LEASE_TTL": "3.0"})
    result = jobs.tasks.sleeps.delay()
    jobs.begun()
    began = time.monotonic()
    cancel(jobs, result.id)
    jobs.reach(result.id, State.CANCELLED)
    assert time.monotonic() - began < 3.0, "a beat is one second"
    assert is_revoked(result)
    assert jobs.tasks.tells_if_it_runs.delay().get(timeout=20) == "ran", "the worker goes on"


def test_on_a_pool_of_threads_each_body_keeps_its_own_lease_and_looks_for_its_own_cancellation(jobs):
    jobs = jobs(pool="threads", concurrency=2, env={"LEASE_TTL": "1.5"})
    first, second = jobs.tasks.looks.delay(60), jobs.tasks.looks.delay(5)
    jobs.begun(2)
    cancel(jobs, first.id)
    jobs.reach(first.id, State.CANCELLED)
    assert is_revoked(first)
    assert second.get(timeout=30) == 1, "longer than three leases, in one attempt"
    assert jobs.settled(second.id).crashes == 0


def test_on_a_pool_of_threads_a_body_that_computes_in_python_is_stopped_beside_one_that_goes_on(jobs):
    jobs = jobs(pool="threads", concurrency=2, env={"LEASE_TTL": "1.5"})
    first, second = jobs.tasks.computes.delay(), jobs.tasks.looks.delay(3)
    jobs.begun(2)
    cancel(jobs, first.id)
    jobs.reach(first.id, State.CANCELLED)
    assert is_revoked(first)
    assert second.get(timeout=30) == 1
    assert jobs.tasks.tells_if_it_runs.delay().get(timeout=20) == "ran", "the thread goes on"


@pytest.mark.parametrize("group_of_them", [False, True])
def test_celerys_revoke_ends_jobs_that_wait_at_once(jobs, group_of_them):
    jobs = jobs(concurrency=1)
    sig = jobs.tasks.tells_if_it_runs.s()
    result = group([sig, sig]).apply_async(countdown=60) if group_of_them else sig.apply_async(countdown=60)
    result.revoke()
    for each in result.children if group_of_them else [result]:
        assert jobs.settled(each.id).state == State.CANCELLED
        assert is_revoked(each, match="revoked")


@pytest.mark.parametrize("signal", ["TERM", "KILL"])
def test_a_job_that_is_revoked_and_terminated_while_it_runs_does_not_run_again(jobs, signal):
    jobs = jobs(concurrency=1)
    result = jobs.tasks.sleeps.delay()
    jobs.begun()
    result.revoke(terminate=True, signal=signal)
    assert is_revoked(result, match="terminated")
    record = jobs.settled(result.id)
    assert (record.state, record.crashes, record.attempt) == (State.CANCELLED, 0, 1)
    assert jobs.tasks.tells_if_it_runs.delay().get(timeout=20) == "ran"
    assert jobs.told("begun") == 1


def test_a_job_that_is_revoked_by_a_stamped_header_is_cancelled(jobs):
    jobs = jobs(concurrency=1)
    runner = jobs.tasks.sleeps.delay()
    jobs.begun()
    jobs.node.app.control.revoke_by_stamped_headers({"tenant": ["acme"]}, reply=True, timeout=2)
    result = jobs.tasks.tells_if_it_runs.apply_async(
        headers={"stamped_headers": ["tenant"], "tenant": "acme"}, tenant="acme", stamped_headers=["tenant"]
    )
    cancel(jobs, runner.id)
    assert is_revoked(result, match="revoked")
    assert jobs.settled(result.id).state == State.CANCELLED


@pytest.mark.parametrize(
    ("how", "state", "runs"), [("ignore", State.IGNORED, 1), ("reject", State.REJECTED, 1)]
)
def test_a_body_that_gives_way_ends_in_its_own_state_and_is_not_run_again(jobs, how, state, runs):
    jobs = jobs(concurrency=1, env={"QUEUED_TIMEOUT": "1.0", "LEASE_TTL": "1.0", "ACKS_LATE": "1"})
    result = jobs.tasks.gives_way.delay(how)
    jobs.settled(result.id)
    # Long enough for every kind of recovery to have looked.
    assert jobs.tasks.tells_if_it_runs.apply_async(countdown=3).get(timeout=30) == "ran"
    assert jobs.record(result.id).state == state
    assert jobs.told(how) == runs


def test_a_message_that_is_rejected_to_be_requeued_runs_again(jobs):
    jobs = jobs(concurrency=1, env={"ACKS_LATE": "1"})
    result = jobs.tasks.gives_way.delay("requeue")
    wait_until(lambda: jobs.told("requeue") >= 3, timeout=20, what="it to come again and again")
    wait_until(lambda: cancel(jobs, result.id), what="its end")
    wait_until(lambda: jobs.record(result.id).state == State.CANCELLED, timeout=20, what="its end")


def test_the_jobs_of_a_purged_queue_are_cancelled_and_no_recovery_brings_them_back(jobs):
    jobs = jobs(concurrency=1, env={"QUEUED_TIMEOUT": "1.0"})
    runner = jobs.tasks.sleeps.delay()
    jobs.begun()
    prefetched = jobs.tasks.tells_if_it_runs.delay()
    part = jobs.pulse.keys.partition(jobs.pulse.keys.partition_of(prefetched.id))
    wait_until(lambda: jobs.redis.zscore(part.held, prefetched.id), what="the message in hand")
    waiting = [jobs.tasks.tells_if_it_runs.delay() for _ in range(5)]
    assert jobs.node.app.control.purge() == 5
    assert {jobs.settled(result.id).state for result in waiting} == {State.CANCELLED}
    cancel(jobs, runner.id)
    assert prefetched.get(timeout=20) == "ran"
    assert jobs.tasks.tells_if_it_runs.apply_async(countdown=3).get(timeout=30) == "ran"
    assert jobs.told("ran") == 2
