"""A body is stopped by a signal: in itself only, once while it cleans up, again if it has swallowed it."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from denyut.errors import JobCancelled, LeaseLost
from denyut.tasks.interrupt import allow, interruptibly
from denyut.tasks.run import JobRun
from denyut.tasks.slot import STOP
from denyut.tasks.slots import CANCEL, LOST, SlotBlock


@pytest.fixture(autouse=True)
def _main_thread_pool():
    before = signal.getsignal(STOP)
    allow(True)
    yield
    allow(False)
    signal.signal(STOP, before)


@pytest.fixture
def block():
    block = SlotBlock.create(4)
    yield block
    block.close()


@pytest.fixture
def run(block):
    slot = block.slot(0)
    slot.begin(job_id="j", task="t", partition=0, fence=7, attempt=1, owner="w")
    return JobRun(id="j", task="t", fence=7, slot=slot)


def tell(block, flag=CANCEL, fence=7):
    """What the heartbeat does."""
    block.flag(0, fence, flag)
    os.kill(os.getpid(), STOP)


def later(act):
    timer = threading.Timer(0.05, act)
    timer.start()
    return timer


@pytest.mark.parametrize(("flag", "error"), [(CANCEL, JobCancelled), (LOST, LeaseLost)])
def test_a_sleeping_body_is_stopped(run, block, flag, error):
    timer = later(lambda: tell(block, flag))
    began = time.monotonic()
    with pytest.raises(error, match="job j"):
        interruptibly(run, lambda: time.sleep(30))  # what is interrupted
    timer.join()
    assert time.monotonic() - began < 5


def test_a_body_that_waits_for_a_lock_is_stopped(run, block):
    lock = threading.Lock()
    lock.acquire()
    timer = later(lambda: tell(block))
    with pytest.raises(JobCancelled):
        interruptibly(run, lock.acquire)
    timer.join()


def test_a_body_that_was_flagged_before_it_began_does_not_begin(run, block):
    block.flag(0, 7, CANCEL)
    with pytest.raises(JobCancelled):
        interruptibly(run, lambda: pytest.fail("it began"))


def test_a_signal_without_a_flag_or_with_that_of_another_job_is_not_meant(run, block):
    def body():
        os.kill(os.getpid(), STOP)
        tell(block, fence=6)
        return 1

    assert interruptibly(run, body) == 1


def test_outside_the_body_the_signal_does_nothing(run, block):
    assert interruptibly(run, lambda: 1) == 1
    tell(block)
    assert not block.read(0).in_body


def test_the_slot_says_when_the_body_can_be_interrupted(run, block):
    assert interruptibly(run, lambda: block.read(0).in_body)
    assert not block.read(0).in_body


def test_cleaning_up_is_not_interrupted_again(run, block):
    def body():
        try:
            tell(block)
            time.sleep(30)  # what is interrupted
        except JobCancelled:
            tell(block)
            run.progress(1)
            run.stage("CLEANING")
            cleaned.append(1)
            raise
        finally:
            tell(block)
            cleaned.append(2)

    cleaned = []
    with pytest.raises(JobCancelled):
        interruptibly(run, body)
    assert cleaned == [1, 2]


def test_a_body_that_swallowed_it_is_told_again(run, block):
    def body():
        for _ in range(3):
            try:
                tell(block)
                time.sleep(30)  # what is interrupted
            except BaseException as exc:  # noqa: BLE001 - that is what is tested
                swallowed.append(type(exc))

    swallowed = []
    with pytest.raises(JobCancelled):
        interruptibly(run, body)
    assert swallowed == [JobCancelled] * 3


def test_a_body_that_was_told_has_not_completed_whatever_it_returns_or_raises(run, block):
    def body():
        try:
            tell(block)
            time.sleep(30)  # what is interrupted
        except JobCancelled as exc:
            raise ValueError("cleaning up failed") from exc

    with pytest.raises(JobCancelled) as caught:
        interruptibly(run, body)
    assert isinstance(caught.value.__cause__, ValueError)


def test_a_broad_except_does_not_catch_it(run, block):
    def body():
        try:
            tell(block)
            time.sleep(30)  # what is interrupted
        except Exception:  # noqa: BLE001 - that is what is tested
            pytest.fail("it was taken for an ordinary error")

    with pytest.raises(JobCancelled):
        interruptibly(run, body)


def test_whoever_had_the_signal_before_still_gets_what_is_not_meant_for_a_body(run):
    heard = []
    signal.signal(STOP, lambda *_: heard.append(1))
    interruptibly(run, lambda: None)
    os.kill(os.getpid(), STOP)
    assert heard == [1]


def test_in_another_thread_only_the_flag_is_seen(run, block):
    def work():
        try:
            interruptibly(run, lambda: seen.append(block.read(0).in_body) or run.progress(1))
        except JobCancelled as exc:
            seen.append(type(exc))

    seen = []
    block.flag(0, 7, CANCEL)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [False, JobCancelled]
