"""Locks that jobs hold: noted for their heartbeat, told when they are lost, released at their end."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from unit.tasks.locks.conftest import another_takes

from denyut.errors import LockLost
from denyut.tasks.locks.holds import JobHold
from denyut.tasks.locks.lock import let_go
from denyut.tasks.locks.places import PLACES
from denyut.tasks.run import JobRun, activate
from denyut.tasks.slots import UNLOCKED, SlotBlock, use_block


@pytest.fixture
def block():
    block = SlotBlock.create(4)
    use_block(block)
    yield block
    use_block(None)
    block.close()


@pytest.fixture
def run(block, locks):
    slot = block.slot(0)
    slot.begin(job_id="j", task="t", partition=0, fence=7, attempt=1, owner="w")
    run = JobRun(id="j", task="t", fence=7, slot=slot, pulse=locks)
    with activate(run):
        yield run
    let_go(run)


def test_a_lock_of_a_job_is_noted_for_its_heartbeat_and_no_thread_is_started(locks, run, block, held):
    with locks.lock("a") as lock:
        assert held("a")["job"] == "j"
        assert block.read(0).locks == 1
        assert block.lock_place(0, 0).read(7, 1, "j").fence == lock.fence
        assert not locks.lock_keeper._holds
    assert block.read(0).locks == 0


def test_a_job_hears_of_a_lost_lock_by_its_progress_once(locks, run, block):
    lock, other = locks.lock("a"), locks.lock("b")
    lock.acquire()
    other.acquire()
    block.lock_place(0, 0).answer(lock.fence, None)
    block.flag(0, 7, UNLOCKED)
    with pytest.raises(LockLost, match="lock 'a'"):
        run.progress(1, 2)
    run.progress(2, 2)
    assert not lock.held
    assert other.held


def test_a_job_that_has_released_its_lock_does_not_care_who_has_it(locks, run, block):
    lock = locks.lock("a")
    lock.acquire()
    block.lock_place(0, 0).answer(lock.fence, None)
    block.flag(0, 7, UNLOCKED)
    with pytest.raises(LockLost):
        lock.release()
    run.progress(1, 2)


def test_what_a_job_leaves_behind_is_released(locks, run, block, held):
    for name in ("a", "b"):
        locks.lock(name).acquire()
    locks.lock("light", 60, renew=False).acquire()
    let_go(run)
    assert not any("token" in held(name) for name in ("a", "b", "light"))
    assert block.read(0).locks == 0


def test_a_lock_that_was_lost_is_not_released_by_the_end_of_its_job(locks, run, held, caplog):
    locks.lock("a").acquire()
    another_takes(locks)
    let_go(run)
    assert held("a")["token"] == "other"
    assert "job j: lock 'a'" in caplog.text


def test_a_task_that_is_called_in_place_leaves_no_lock_behind_either(locks, held):
    @locks.app.task(name="t.forgets", shared=False)
    def forgets():
        locks.lock("a").acquire()
        return "token" in held("a")

    assert forgets.apply().get()
    assert "token" not in held("a")


def test_a_process_that_a_job_has_forked_renews_its_own_locks(locks, run, block):
    pid = os.fork()
    if pid == 0:
        try:
            lock = locks.lock("a")
            lock.acquire()
            os._exit(0 if lock._hold in locks.lock_keeper._holds and not block.read(0).locks else 2)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_threads_of_one_job_take_a_place_each(block):
    slot = block.slot(0)
    slot.begin(job_id="j", task="t", partition=0, fence=7, attempt=1, owner="w")
    with ThreadPoolExecutor(8) as pool:
        holds = list(pool.map(lambda _: JobHold(block, slot, 7), range(PLACES)))
    assert {hold._bit for hold in holds} == {1 << number for number in range(PLACES)}
    for hold in holds:
        hold.end()
    assert slot.locks == 0
