from __future__ import annotations

import os
from threading import Thread

import pytest

from denyut.errors import LockHeldHere
from denyut.tasks.locks import taken


@pytest.fixture(autouse=True)
def _nothing_is_taken():
    yield
    taken._taken.clear()


def test_a_thread_is_told_that_it_would_wait_for_itself(locks):
    taken.enter(locks.lock("a"))
    with pytest.raises(LockHeldHere, match=r"lock 'a': this thread has it already.*not re-entrant"):
        taken.enter(locks.lock("a"))
    taken.enter(locks.lock("b"))


def test_another_app_has_other_locks(make_locks):
    one, two = make_locks(), make_locks()
    taken.enter(one.lock("a"))
    taken.enter(two.lock("a"))


def test_another_thread_may_wait(locks):
    taken.enter(locks.lock("a"))
    wrong = []

    def other():
        try:
            taken.enter(locks.lock("a"))
        except LockHeldHere as exc:
            wrong.append(exc)

    thread = Thread(target=other)
    thread.start()
    thread.join()
    assert not wrong


def test_one_object_is_for_one_use_at_a_time(locks):
    lock, told = locks.lock("a"), []
    taken.enter(lock)
    with pytest.raises(LockHeldHere, match="this thread"):
        taken.enter(lock)

    def other():
        with pytest.raises(LockHeldHere, match="another thread, through this very object"):
            taken.enter(lock)
        told.append(True)

    thread = Thread(target=other)
    thread.start()
    thread.join()
    assert told


def test_what_was_left_may_be_taken_again(locks):
    lock = locks.lock("a")
    taken.enter(lock)
    taken.leave(lock)
    taken.leave(lock)
    taken.enter(lock)


def test_a_fork_has_none_of_its_parents_locks(locks):
    lock = locks.lock("a")
    taken.enter(lock)
    pid = os.fork()
    if pid == 0:
        try:
            taken.enter(lock)
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_the_locks_of_a_job_are_found(locks):
    run, lock, other = object(), locks.lock("a"), locks.lock("b")
    assert taken.of_run(run) == []
    lock.run = run
    taken.enter(lock)
    taken.enter(other)
    assert taken.of_run(run) == [lock]
