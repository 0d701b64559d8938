"""Who is to blame on real workers: not a deploy, not who shared a dead worker, but who kills it."""

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


def begun(node, total=40):
    """Start a job that works in steps, and return its result when it has a checkpoint."""
    result = node.module.steps.delay(total, 0.1)
    wait_until(lambda: record(node.app.denyut, result.id).checkpoint, timeout=20, what="its first checkpoint")
    return result


def runs_again_without_a_crash(node, result):
    begin, attempt, crashes = result.get(timeout=40)
    assert (attempt, crashes) == (2, 0)
    assert begin >= 1, "from its checkpoint"
    found = record(node.app.denyut, result.id)
    assert (found.state, found.crashes) == (State.COMPLETED, 0)
    return found


def test_a_warm_shutdown_that_is_cut_short_is_no_crash(worker):
    first = worker("apps.jobs")
    result = begun(first)
    job = first.app.denyut.keys.job(result.id).record
    first.send_signal(signal.SIGTERM)
    wait_until(lambda: first.app.denyut.store.client.hget(job, "draining"), what="Redis to know")
    first.kill_all()
    second = worker("apps.jobs")
    runs_again_without_a_crash(second, result)


@pytest.mark.parametrize("acks_late", ["0", "1"])
@pytest.mark.parametrize("soft", ["0", "1"])
def test_a_cold_and_a_soft_shutdown_are_no_crash(worker, acks_late, soft):
    env = {"ACKS_LATE": acks_late, "SOFT_SHUTDOWN": soft}
    first = worker("apps.jobs", env=env)
    second = worker("apps.jobs", env=env, start=False)
    result = begun(first)
    first.send_signal(signal.SIGQUIT)
    first.wait()
    second.start()
    runs_again_without_a_crash(second, result)


def test_a_sigterm_to_the_whole_group_is_no_crash(worker):
    first = worker("apps.jobs", env={"LEASE_TTL": "30.0"})
    result = begun(first)
    os.killpg(first.pid, signal.SIGTERM)
    first.wait()
    second = worker("apps.jobs")
    # Python drops what a signal handler raises at some moments (in a __del__, say): that body goes on.
    if record(second.app.denyut, result.id).state == State.COMPLETED:
        assert result.get(timeout=40) == [0, 1, 0]
    else:
        runs_again_without_a_crash(second, result)


def test_a_sigterm_to_one_process_of_the_pool_is_a_crash(worker):
    node = worker("apps.jobs", env={"LEASE_TTL": "30.0"})
    result = begun(node)
    os.kill(record(node.app.denyut, result.id).pid, signal.SIGTERM)
    assert result.get(timeout=40)[1:] == [2, 1]


def test_replaced_pool_processes_lose_no_job(worker):
    node = worker("apps.jobs", args=("--max-tasks-per-child=1", "--autoscale=4,1"))
    results = [node.module.steps.delay(5, 0.1) for _ in range(6)]
    node.app.control.pool_restart()
    assert [r.get(timeout=60) for r in results] == [[0, 1, 0]] * 6


@pytest.mark.parametrize("number", [signal.SIGKILL])
def test_a_job_that_kills_its_whole_worker_is_dead_and_those_that_shared_it_are_not_blamed(worker, number):
    node = worker("apps.jobs", concurrency=4, env={"MAX_CRASHES": "1", "LEASE_TTL": "1.0"})
    pulse, module = node.app.denyut, node.module
    innocents = [module.steps.delay(30, 0.1) for _ in range(3)]
    killer = module.kill_worker.delay(int(number))

    def over():
        if not node.running:
            node.start(wait=False)  # as a supervisor does
        return all(record(pulse, r.id).settled for r in [killer, *innocents])

    wait_until(over, timeout=100, what="all four to end", every=0.1)
    with pytest.raises(JobDead):
        killer.get(timeout=5)
    found = record(pulse, killer.id)
    assert (found.state, found.crashes) == (State.DEAD, 2)
    for result in innocents:
        _, attempt, crashes = result.get(timeout=5)
        assert crashes == 0
        assert attempt >= 2
