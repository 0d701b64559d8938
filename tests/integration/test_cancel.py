"""Jobs of real workers are cancelled, in each state, and bodies that do not want to stop are stopped."""

from __future__ import annotations

import time

import pytest
from celery.exceptions import TaskRevokedError
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
