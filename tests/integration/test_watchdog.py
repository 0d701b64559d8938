"""Jobs that will not end, made for real: shown for what they are, or let go of, and run again."""

from __future__ import annotations

import os
import signal

import pytest
from support import wait_until

from denyut.states import State, Verdict

TTL = 1.0
STALL = 1.0


def start(worker, pool="prefork", heartbeat="auto", **env):
    named = {"LEASE_TTL": str(TTL), "STALL_AFTER": str(STALL), "GRACE": "0.5", "HEARTBEAT": heartbeat}
    return worker("apps.jobs", env={**named, **env}, pool=pool, concurrency=2)


def verdict(node, job):
    return node.app.denyut.jobs.get(job.id, fresh=True).verdict


def kinds(node, job):
    return [event.kind for event in node.app.denyut.jobs.explain(job.id).events]


@pytest.mark.parametrize("heartbeat", ["thread", "process"])
def test_a_deadlock_is_shown_as_stalled_and_left_alone(worker, heartbeat):
    node = start(worker, heartbeat=heartbeat)
    job = node.module.hangs_once.delay("lock")
    wait_until(lambda: verdict(node, job) == Verdict.STALLED, timeout=30, what="the verdict stalled")
    assert node.app.denyut.jobs.get(job.id).attempt == 1
    node.app.denyut.jobs.cancel(job.id)
    wait_until(lambda: verdict(node, job) == Verdict.CANCELLED, timeout=30)


def test_a_frozen_process_is_stalled_and_goes_on_when_it_thaws(worker):
    node = start(worker)
    job = node.module.steps.delay(20, 0.1)

    def beaten():
        status = node.app.denyut.jobs.get(job.id, fresh=True)
        return status.record.pid if status.telemetry else None

    pid = wait_until(beaten, timeout=30, what="the first beat")
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: verdict(node, job) == Verdict.STALLED, timeout=30, what="the verdict stalled")
    os.kill(pid, signal.SIGCONT)
    assert job.get(timeout=30)[1:] == [1, 0]


def test_a_frozen_worker_is_slow_and_then_crashed(worker):
    node = start(worker)
    job = node.module.waits.delay(60)
    wait_until(lambda: verdict(node, job) == Verdict.RUNNING, timeout=30)
    seen = []
    node.send_signal(signal.SIGSTOP)
    try:

        def crashed():
            seen.append(verdict(node, job))
            return seen[-1] == Verdict.CRASHED

        wait_until(crashed, timeout=30, what="the verdict crashed")
    finally:
        node.send_signal(signal.SIGCONT)
    assert Verdict.SLOW in seen
    assert Verdict.STALLED not in seen
    node.app.denyut.jobs.cancel(job.id)


@pytest.mark.parametrize("heartbeat", ["thread", "process"])
def test_a_deadlock_is_interrupted_and_runs_again(worker, heartbeat):
    node = start(worker, heartbeat=heartbeat, ON_STALL="interrupt")
    job = node.module.hangs_once.delay("lock")
    assert job.get(timeout=40) == [2, 1]
    assert "stalled" in kinds(node, job)


@pytest.mark.parametrize("policy", ["interrupt", "kill"])
def test_what_no_signal_wakes_is_killed_and_runs_again(worker, policy):
    node = start(worker, ON_STALL=policy)
    job = node.module.hangs_once.delay("deaf")
    assert job.get(timeout=40) == [2, 1]
    assert "its process" in node.logs()


@pytest.mark.parametrize(("pool", "how"), [("prefork", "lock"), ("solo", "lock"), ("threads", "busy")])
def test_a_job_that_runs_too_long_runs_again_on_every_pool(worker, pool, how):
    node = start(worker, pool=pool)
    job = node.module.overruns_once.delay(how)
    assert job.get(timeout=40) == [2, 1]
    story = node.app.denyut.jobs.explain(job.id)
    assert "it ran longer than max_runtime=1.5 s" in str(story.lines)
    node.kill_all()


def test_a_job_that_always_hangs_ends_as_a_dead_letter_that_says_why(worker):
    node = start(worker, MAX_CRASHES="0")
    job = node.module.overruns_once.delay("busy")
    wait_until(lambda: verdict(node, job) == Verdict.DEAD, timeout=40, what="the dead letter")
    [letter] = node.app.denyut.jobs.dead().letters
    assert "it ran longer than max_runtime=1.5 s" in letter.reason
    assert node.app.denyut.jobs.get(job.id, fresh=True).state == State.DEAD
