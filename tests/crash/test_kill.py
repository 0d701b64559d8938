"""Real SIGKILL at real workers: the job runs again in time, from its checkpoint, with its crash counted."""

from __future__ import annotations

import os
import signal

import pytest
from support import wait_until

from denyut.errors import JobDead
from denyut.states import State
from denyut.tasks.record import FIELDS, JobRecord

TTL = 2.0


def record(pulse, job_id):
    return JobRecord.from_redis(job_id, pulse.store.client.hmget(pulse.keys.job(job_id).record, *FIELDS))


def running_past(pulse, job_id, step):
    """Wait until the job is past ``step`` and return its record."""

    def past():
        found = record(pulse, job_id)
        return found if found.state == State.RUNNING and (found.checkpoint or 0) >= step else None

    return wait_until(past, timeout=20, what=f"job {job_id} past step {step}")


def steps_done(valkey, job_id, total):
    return [int(valkey.hget("steps", f"{job_id}:{step}") or 0) for step in range(total)]


def test_a_killed_childs_job_runs_again_at_once_from_its_checkpoint(worker, valkey):
    node = worker("apps.jobs")
    pulse = node.app.denyut
    result = node.module.steps.delay(10, 0.1)
    before = running_past(pulse, result.id, 3)
    os.kill(before.pid, signal.SIGKILL)
    begin, attempt, crashes = result.get(timeout=30)
    assert (attempt, crashes) == (2, 1)
    assert begin >= 3
    done = steps_done(valkey, result.id, 10)
    assert all(done)
    assert sum(done) <= 11, "only the step that was cut short may be repeated"
    assert record(pulse, result.id).recovered_us < TTL * 10**6, "before its lease had lapsed"


@pytest.mark.parametrize("acks_late", ["0", "1"])
def test_a_killed_workers_job_is_taken_over_within_its_lease_and_two_seconds(worker, valkey, acks_late):
    env = {"ACKS_LATE": acks_late}
    first = worker("apps.jobs", env=env)
    pulse = first.app.denyut
    result = first.module.steps.delay(60, 0.1)
    running_past(pulse, result.id, 3)
    second = worker("apps.jobs", env=env)
    first.kill_all()
    begin, attempt, crashes = result.get(timeout=30)
    assert (attempt, crashes) == (2, 1)
    assert begin >= 3
    assert sum(steps_done(valkey, result.id, 60)) <= 61
    assert record(pulse, result.id).recovered_us <= (TTL + 2) * 10**6
    assert "published again (crashed)" in second.logs()


def test_when_only_the_main_process_is_killed_its_children_do_not_work_on_unseen(worker, valkey):
    first = worker("apps.jobs")
    pulse = first.app.denyut
    result = first.module.steps.delay(60, 0.1)
    running_past(pulse, result.id, 3)
    second = worker("apps.jobs")
    first.kill()
    begin, attempt, _ = result.get(timeout=30)
    assert attempt == 2
    assert begin >= 3
    assert sum(steps_done(valkey, result.id, 60)) <= 61
    assert second.running


def test_messages_that_a_killed_worker_had_prefetched_run_on_another(worker, valkey):
    first = worker("apps.jobs", concurrency=1, env={"PREFETCH": "10"})
    pulse = first.app.denyut
    running = first.module.steps.delay(200, 0.1)
    running_past(pulse, running.id, 1)
    waiting = [first.module.add.delay(n, 1) for n in range(5)]
    part = pulse.keys.partition
    held = lambda: all(  # noqa: E731
        valkey.zscore(part(pulse.keys.partition_of(r.id)).held, r.id) for r in waiting
    )
    wait_until(held, what="the prefetched messages to be held")
    second = worker("apps.jobs", env={"PREFETCH": "10"})
    first.kill_all()
    assert [r.get(timeout=30) for r in waiting] == [1, 2, 3, 4, 5]
    assert second.running


def test_a_job_that_kills_its_worker_every_time_stops_when_its_budget_is_spent(worker):
    node = worker("apps.jobs", env={"MAX_CRASHES": "2"})
    pulse = node.app.denyut
    result = node.module.suicide.delay()
    with pytest.raises(JobDead):
        result.get(timeout=60)
    found = record(pulse, result.id)
    assert (found.state, found.crashes, found.attempt) == (State.DEAD, 3, 3)
    assert node.module.add.delay(1, 2).get(timeout=30) == 3, "the worker goes on"


def test_a_job_that_holds_the_gil_for_long_keeps_its_lease(worker):
    node = worker("apps.jobs", concurrency=1)
    other = worker("apps.jobs", concurrency=1)
    result = node.module.backtrack.delay(27)
    assert result.get(timeout=110) == 1, "one attempt"
    assert other.running
    assert record(node.app.denyut, result.id).crashes == 0


def test_a_worker_that_was_paused_past_its_lease_changes_nothing_when_it_wakes(worker, valkey):
    first = worker("apps.jobs", concurrency=1)
    pulse = first.app.denyut
    result = first.module.steps.delay(30, 0.1)
    before = running_past(pulse, result.id, 2)
    os.kill(before.pid, signal.SIGSTOP)
    first.send_signal(signal.SIGSTOP)
    second = worker("apps.jobs", concurrency=1)
    wait_until(
        lambda: record(pulse, result.id).fence > before.fence,
        timeout=20,
        what="the other worker to take over",
    )
    first.send_signal(signal.SIGCONT)
    os.kill(before.pid, signal.SIGCONT)
    _, attempt, crashes = result.get(timeout=60)
    assert (attempt, crashes) == (2, 1)
    wait_until(lambda: "lost its lease" in first.logs(), timeout=20, what="the loser to say so")
    assert "succeeded" not in first.logs()
    assert second.running
