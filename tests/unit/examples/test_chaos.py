from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from chaos import Chaos
from statuses import job

from denyut.states import State


@pytest.fixture
def victim():
    """A pool process that waits to be killed."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


class Audience:
    def __init__(self):
        self.killed: list[str] = []
        self.said: list[str] = []
        self.chaos = Chaos(self.killed.append, self.said.append)


def running(pid=1, worker="w1@demo", **fields):
    fields = {"progress": 0.3, "checkpoint": 5000, "attempt": 1, **fields}
    return job(State.RUNNING, pid=pid, owner=f"{worker}|boot", **fields)


@pytest.mark.parametrize(
    "status",
    [
        job(State.QUEUED),
        running(checkpoint=None),
        running(progress=0.95),
        job(State.COMPLETED, checkpoint=5000, attempt=1),
    ],
    ids=["queued", "before its first checkpoint", "nearly done", "done"],
)
def test_only_a_job_in_its_middle_is_killed(status, victim):
    audience = Audience()
    audience.chaos.act({"m": status})
    assert audience.said == []


def test_first_one_pool_process_is_killed_with_sigkill(victim):
    audience = Audience()
    audience.chaos.act({"m": running(victim.pid)})
    assert victim.wait(10) == -signal.SIGKILL
    assert audience.killed == []
    assert f"pool process {victim.pid} of w1@demo, in the middle of m" in audience.said[0]


def play_first_act(audience, victim, **others):
    jobs = {"a": running(victim.pid), **others}
    audience.chaos.act(jobs)
    audience.chaos.act({**jobs, "a": job(State.QUEUED, attempt=1, crashes=1)})
    assert audience.chaos.acts_left == 2, "it does not run again yet"
    audience.chaos.act({**jobs, "a": running(attempt=2, crashes=1)})
    assert audience.chaos.acts_left == 1


def test_then_a_whole_worker_rather_another_one_than_the_first(victim):
    audience = Audience()
    play_first_act(audience, victim, b=running(worker="w2@demo"), c=running(worker="w2@demo"))
    audience.chaos.act({"a": running(), "b": running(worker="w2@demo"), "c": running(worker="w2@demo")})
    assert audience.killed == ["w2@demo"]
    assert "in the middle of b, c" in audience.said[-1]
    audience.chaos.act({"a": running(), "b": running(crashes=1, attempt=2), "c": job(State.COMPLETED)})
    assert audience.chaos.acts_left == 0


def test_the_same_worker_is_killed_if_only_that_has_a_job(victim):
    audience = Audience()
    play_first_act(audience, victim)
    audience.chaos.act({"a": running(attempt=2, crashes=1)})
    assert audience.killed == ["w1@demo"]


def test_a_kill_that_came_too_late_is_tried_again(victim):
    audience = Audience()
    play_first_act(audience, victim)
    audience.chaos.act({"a": running(attempt=2, crashes=1)})
    audience.chaos.act({"a": job(State.COMPLETED, attempt=2, crashes=1)})
    assert audience.chaos.acts_left == 1
    assert "too late" in audience.said[-1]
    audience.chaos.act({"b": running()})
    assert audience.killed == ["w1@demo", "w1@demo"]


def test_a_process_that_is_gone_already_is_no_error(victim):
    victim.kill()
    victim.wait()
    Audience().chaos.act({"m": running(victim.pid)})
