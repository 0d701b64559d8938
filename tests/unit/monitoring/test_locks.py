from __future__ import annotations

import os

import pytest
from support import wait_until

from denyut.errors import InvalidLock, LockLost, NotReleasable


@pytest.fixture
def pulse_(pulse):
    made = pulse(denyut_lease_ttl=0.5)
    yield made
    made.lock_keeper.stop()


def test_held_locks_are_listed_the_oldest_first(pulse_):
    with pulse_.lock("b", 30), pulse_.lock("a", 60) as lock:
        first, second = pulse_.locks.list()
        assert (first.name, second.name) == ("b", "a")
        assert (second.fence, second.pid, second.job, second.wanted) == (lock.fence, os.getpid(), "", False)
        assert first.held_s >= second.held_s >= 0
        assert 55 < second.left_s <= 60
        assert pulse_.locks.get("b").name == "b"
    assert pulse_.locks.list() == []
    assert pulse_.locks.get("b") is None


def test_a_lock_that_has_lapsed_is_not_held(pulse_):
    pulse_.lock("a", 0.05, renew=False).acquire()
    wait_until(lambda: not pulse_.locks.list(), what="the lapse")
    assert pulse_.locks.get("a") is None


def test_a_lock_that_somebody_waits_for_is_wanted(pulse_):
    with pulse_.lock("a", 30):
        pulse_.store.client.hset(pulse_.keys.lock("a").lock, "waited", 9_000_000_000_000_000)
        assert pulse_.locks.get("a").wanted


def test_a_lock_is_taken_away_by_hand_and_its_holder_is_told(pulse_):
    lock = pulse_.lock("a")
    lock.acquire()
    pulse_.locks.release("a", lock.fence)
    assert pulse_.locks.get("a") is None
    wait_until(lambda: not lock.held, what="the news")
    with pytest.raises(LockLost):
        lock.release()


def test_only_the_hold_that_is_named_is_released(pulse_):
    with pulse_.lock("a", 30) as lock:
        with pytest.raises(NotReleasable, match=f"not held with fence 7: it is held with fence {lock.fence}"):
            pulse_.locks.release("a", 7)
        lock.check()
    with pytest.raises(NotReleasable, match="nobody holds it"):
        pulse_.locks.release("b", 7)


def test_what_is_no_name_is_refused(pulse_):
    with pytest.raises(InvalidLock):
        pulse_.locks.get("")
