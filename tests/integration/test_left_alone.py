"""Jobs that Redis, the broker, or a deploy leaves alone, on real workers."""

from __future__ import annotations

import pytest
from celery.exceptions import TimeoutError as NotYetError
from support import wait_until

from denyut.states import State
from denyut.tasks.record import FIELDS, JobRecord


def record(pulse, job_id):
    return JobRecord.from_redis(job_id, pulse.store.client.hmget(pulse.keys.job(job_id).record, *FIELDS))


def running(node, seconds):
    """Start a job that takes ``seconds``, and return its result when it runs."""
    result = node.module.waits.delay(seconds)
    wait_until(
        lambda: record(node.app.denyut, result.id).state == State.RUNNING, timeout=20, what="it to run"
    )
    return result


@pytest.fixture
def apart(worker, restartable_valkey):
    """A worker whose records are on a Redis of their own, apart from the broker."""
    return worker("apps.jobs", env={"DENYUT_REDIS_URL": restartable_valkey.url, "LEASE_TTL": "1.5"})


@pytest.mark.parametrize("away", [0.0, 3.0])
def test_a_job_outlives_a_restart_of_redis_also_one_longer_than_its_lease(apart, restartable_valkey, away):
    result = running(apart, 8)
    restartable_valkey.kill()
    if away:
        with pytest.raises(NotYetError):
            result.get(timeout=away)
    restartable_valkey.start()
    assert result.get(timeout=40) == [1, 0]
    found = wait_until(lambda: (r := record(apart.app.denyut, result.id)).settled and r, what="its record")
    assert (found.state, found.attempt, found.crashes) == (State.COMPLETED, 1, 0)


def test_a_job_whose_redis_was_flushed_under_it_completes_and_is_recorded(apart, restartable_valkey):
    result = running(apart, 5)
    with restartable_valkey.client() as client:
        client.flushall()
    assert result.get(timeout=40) == [1, 0]
    found = wait_until(
        lambda: (r := record(apart.app.denyut, result.id)) and r.settled and r, what="its record"
    )
    assert (found.state, found.attempt, found.task) == (State.COMPLETED, 1, "apps.jobs.waits")
    assert "lost its lease" not in apart.logs()


def test_a_job_whose_queue_was_flushed_runs_within_seconds(worker, valkey):
    node = worker("apps.jobs", start=False)
    result = node.module.add.delay(1, 2)
    assert valkey.delete("celery") == 1
    node.start()
    assert result.get(timeout=25) == 3


def test_a_job_is_left_for_a_worker_that_knows_its_task(worker):
    old = worker("apps.jobs")
    new = worker("apps.failing", start=False)
    result = new.module.fine.delay()
    wait_until(lambda: "is unknown here" in old.logs(), timeout=20, what="the old worker to put it aside")
    assert result.state == "PENDING"
    new.start()
    assert result.get(timeout=30) == 1
    found = record(new.app.denyut, result.id)
    assert (found.state, found.crashes) == (State.COMPLETED, 0)
