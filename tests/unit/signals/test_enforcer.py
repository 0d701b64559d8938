"""Whom the enforcer signals, and whom it kills."""

from __future__ import annotations

import os
import signal

import pytest
from support import wait_until

from denyut.signals.beat import Beat
from denyut.signals.enforcer import Enforcer
from denyut.tasks.slots import CANCEL, LOST, UNLOCKED

WAKE = signal.SIGUSR2


@pytest.fixture
def sent():
    return []


@pytest.fixture
def make(stage, sent):
    """An enforcer that takes this process for one of its pool."""

    def make(grace=3600.0):
        enforcer = Enforcer(stage.block, WAKE, grace, spared=0)
        return enforcer, lambda: enforcer.look(lambda pid, number: sent.append((pid, number)))

    return make


def run_flagged(stage, flag=CANCEL, *, body=True):
    stage.begin(0, "j", fence=7)
    if body:
        stage.block.slot(0).enter_body()
    stage.block.flag(0, 7, flag)
    return Beat(jobs=stage.beater.jobs())


@pytest.mark.parametrize("flag", [CANCEL, LOST])
def test_a_flagged_body_is_signalled_at_every_look(stage, make, sent, flag):
    enforcer, look = make()
    enforcer.follow(run_flagged(stage, flag))
    look()
    look()
    assert sent == [(os.getpid(), WAKE)] * 2


def test_a_body_whose_flag_a_beat_has_just_set_is_signalled(stage, make, sent):
    enforcer, look = make()
    stage.begin(0, "j", fence=7)
    stage.block.slot(0).enter_body()
    [job] = stage.beater.jobs()
    stage.block.flag(0, 7, CANCEL)
    enforcer.follow(Beat(jobs=[job], cancelled=[job]))
    look()
    assert [number for _, number in sent] == [WAKE]


def test_what_is_not_flagged_is_left_alone(stage, make, sent):
    enforcer, look = make()
    stage.begin(0, "j", fence=7)
    stage.block.slot(0).enter_body()
    enforcer.follow(Beat(jobs=stage.beater.jobs()))
    look()
    assert sent == []


def test_outside_the_body_nothing_is_signalled_or_killed(stage, make, sent):
    enforcer, look = make(grace=0.0)
    enforcer.follow(run_flagged(stage, body=False))
    look()
    stage.block.slot(0).enter_body()
    stage.block.slot(0).leave_body()
    look()
    assert sent == []


def test_the_next_job_of_the_slot_is_not_meant(stage, make, sent):
    enforcer, look = make()
    enforcer.follow(run_flagged(stage))
    stage.begin(0, "next", fence=8)
    stage.block.slot(0).enter_body()
    look()
    assert sent == []


def test_when_the_grace_is_over_the_process_is_killed_and_the_log_says_why(stage, make, sent, caplog):
    enforcer, look = make(grace=0.0)
    enforcer.follow(run_flagged(stage))
    look()
    look()
    assert [number for _, number in sent] == [signal.SIGKILL] * 2
    assert caplog.text.count("was cancelled and did not stop within 0 s") == 1


def test_the_workers_own_process_is_never_killed(stage, sent):
    enforcer = Enforcer(stage.block, WAKE, 0.0)
    enforcer.follow(run_flagged(stage))
    enforcer.look(lambda pid, number: sent.append((pid, number)))
    assert sent == [(os.getpid(), WAKE)]


def test_a_killed_process_ends(stage, fork, make):
    from denyut.signals.pidwatch import PidWatch
    from denyut.signals.wake import Wake

    wake = Wake()
    pid = fork(lambda: run_flagged(stage))
    wait_until(lambda: stage.beater.jobs() and stage.beater.jobs()[0].flags, what="the job")
    watch = PidWatch(wake)
    watch.follow([pid])
    enforcer = Enforcer(stage.block, WAKE, 0.0)
    enforcer.follow(Beat(jobs=stage.beater.jobs()))
    enforcer.look(watch.send)
    assert watch.wait(5.0) == [pid]
    watch.close()
    wake.close()


def test_a_body_that_has_lost_a_lock_is_neither_signalled_nor_killed(stage, make, sent):
    enforcer, look = make(grace=0.0)
    enforcer.follow(run_flagged(stage, UNLOCKED))
    look()
    assert sent == []
