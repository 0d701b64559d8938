"""A body in a thread of a pool is stopped where it runs Python code, and nothing but a body is."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from support import wait_until

from denyut.errors import JobCancelled, LeaseLost
from denyut.tasks.interrupt import allow_threads, interruptibly
from denyut.tasks.run import JobRun
from denyut.tasks.slot import STOP
from denyut.tasks.slots import CANCEL, LOST, SlotBlock


@pytest.fixture(autouse=True)
def _pool_of_threads():
    before = signal.getsignal(STOP)
    allow_threads(True)
    yield
    allow_threads(False)
    signal.signal(STOP, before)


@pytest.fixture
def block():
    block = SlotBlock.create(8)
    yield block
    block.close()


@pytest.fixture
def pool():
    with ThreadPoolExecutor(4) as pool:
        yield pool


def make_run(block, index=0, fence=7):
    slot = block.slot(index)
    slot.begin(job_id=f"j{index}", task="t", partition=0, fence=fence, attempt=1, owner="w")
    return JobRun(id=f"j{index}", task="t", fence=fence, slot=slot)


def tell(block, index=0, flag=CANCEL, fence=7):
    """What the heartbeat does."""
    block.flag(index, fence, flag)
    os.kill(os.getpid(), STOP)


class Busy:
    """A body of Python code that goes on until it is stopped."""

    def __init__(self):
        self.begun = threading.Event()

    def __call__(self):
        self.begun.set()
        while True:
            sum(range(100))


@pytest.mark.parametrize(("flag", "error"), [(CANCEL, JobCancelled), (LOST, LeaseLost)])
def test_a_body_that_runs_python_code_is_stopped_and_told_why(block, pool, flag, error):
    run, body = make_run(block), Busy()
    job = pool.submit(interruptibly, run, body)
    assert body.begun.wait(10)
    tell(block, flag=flag)
    with pytest.raises(error, match="job j0"):
        job.result(10)


def test_the_others_go_on(block, pool):
    runs, bodies = [make_run(block, n) for n in range(2)], [Busy(), Busy()]
    first, second = (pool.submit(interruptibly, run, body) for run, body in zip(runs, bodies, strict=True))
    assert all(body.begun.wait(10) for body in bodies)
    tell(block, 0)
    with pytest.raises(JobCancelled, match="job j0"):
        first.result(10)
    assert not second.done()
    tell(block, 1)
    with pytest.raises(JobCancelled, match="job j1"):
        second.result(10)


def test_a_body_that_cleans_up_is_not_told_again_and_one_that_swallows_it_is(block, pool):
    run, steps, go_on = make_run(block), [], threading.Event()

    def body():
        for _ in range(2):
            try:
                steps.append("begun")
                while True:
                    sum(range(100))
            except JobCancelled:
                steps.append("cleaning")
                while not go_on.is_set():
                    sum(range(100))
                steps.append("clean")
        return "swallowed"

    job = pool.submit(interruptibly, run, body)

    def told_until(there):
        """As the heartbeat does: again and again."""

        def look():
            os.kill(os.getpid(), STOP)
            return there()

        wait_until(look, timeout=10)

    wait_until(lambda: steps == ["begun"], timeout=10)
    tell(block)
    told_until(lambda: steps[-1] == "cleaning")
    for _ in range(20):
        os.kill(os.getpid(), STOP)
    go_on.set()
    told_until(job.done)
    with pytest.raises(JobCancelled, match="job j0"):
        job.result(10)
    assert steps == ["begun", "cleaning", "clean"] * 2


def test_a_body_that_sleeps_is_stopped_when_it_wakes(block, pool):
    run, begun = make_run(block), threading.Event()

    def body():
        begun.set()
        time.sleep(0.3)  # in C, where nothing is raised
        return "slept"

    job = pool.submit(interruptibly, run, body)
    assert begun.wait(10)
    tell(block)
    with pytest.raises(JobCancelled):
        job.result(10)


def test_one_that_was_told_before_it_began_does_not_begin(block, pool):
    run, ran = make_run(block), []
    block.flag(0, 7, CANCEL)
    with pytest.raises(JobCancelled):
        pool.submit(interruptibly, run, lambda: ran.append(1)).result(10)
    assert ran == []


class Worker(threading.Thread):
    """Runs bodies one after the other, as a thread of a pool does; ``stray`` is what its own code raised."""

    def __init__(self, block, index):
        super().__init__(daemon=True)
        self.block, self.index = block, index
        self.ended, self.cancelled, self.stray = 0, 0, None

    def run(self):
        try:
            for fence in range(1, 400):
                self.one(make_run(self.block, self.index, fence))
        except BaseException as exc:  # noqa: BLE001 - whatever it is, it is what the test looks for
            self.stray = exc

    def one(self, run):
        try:
            interruptibly(run, lambda: [sum(range(200)) for _ in range(30)])
            self.ended += 1
        except JobCancelled:
            self.cancelled += 1
        for _ in range(5):
            sum(range(200))  # code of the pool
        run.slot.end()


def test_whenever_it_is_told_nothing_but_the_body_is_stopped(block, monkeypatch):
    """Hundreds of bodies that end just when they are told to: no other code of their threads raises."""
    # In a finalizer, or the callback of a weak reference, Python drops it, and says so here.
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    workers = [Worker(block, index) for index in range(2)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for worker in workers:
            worker.start()
        while any(worker.is_alive() for worker in workers):
            for index in range(2):
                state = block.read(index)
                if getattr(state, "fence", 0):
                    tell(block, index, fence=state.fence)
    finally:
        sys.setswitchinterval(interval)
    assert [worker.stray for worker in workers] == [None, None]
    assert [worker.ended + worker.cancelled for worker in workers] == [399, 399]
    assert all(worker.cancelled > 0 for worker in workers)


def test_a_signal_that_is_meant_for_nobody_here_goes_to_who_had_it_before():
    heard = []
    signal.signal(STOP, lambda *_: heard.append(1))
    allow_threads(True)
    os.kill(os.getpid(), STOP)
    wait_until(lambda: heard == [1], timeout=5)
