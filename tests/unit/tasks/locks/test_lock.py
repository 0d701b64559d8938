"""``app.denyut.lock()`` in one process."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from time import monotonic

import pytest
from redis.exceptions import RedisError
from support import wait_until
from unit.tasks.locks.conftest import TTL, another_takes, every_reply_is_lost

from denyut.errors import InvalidLock, LockHeldHere, LockLost, LockTaken


def test_a_lock_is_held_inside_a_with_block(locks, held):
    lock = locks.lock("a")
    with lock as same:
        assert same is lock
        assert held("a")["fence"] == str(lock.fence)
        assert int(held("a")["pid"]) == os.getpid()
        assert lock.held
        lock.check()
    assert "token" not in held("a")
    assert not lock.held
    with pytest.raises(LockLost, match="is not held"):
        _ = lock.fence


def test_an_object_may_be_used_again_and_its_fence_grows(locks):
    lock, fences = locks.lock("a"), []
    for _ in range(3):
        with lock:
            fences.append(lock.fence)
    assert fences == sorted(set(fences))


def test_whoever_does_not_want_to_wait_is_told_who_has_it(locks, elsewhere):
    holder = elsewhere("hold", "a")
    fence = int(holder.stdout.readline())
    lock = locks.lock("a")
    assert not lock.acquire(timeout=0)
    assert (lock.refused.holder.pid, lock.refused.holder.fence) == (holder.pid, fence)
    with pytest.raises(LockTaken, match=f"within 0.1 s: it is held by process {holder.pid} on .*{fence}"):
        locks.lock("a", timeout=0.1).__enter__()
    lock.acquire(timeout=0)  # the object may be used again


def test_the_wait_ends_in_time(locks, elsewhere):
    elsewhere("hold", "a").stdout.readline()
    began = monotonic()
    assert not locks.lock("a").acquire(timeout=0.3)
    assert 0.3 <= monotonic() - began < 3


def test_those_who_wait_get_it_in_the_order_in_which_they_came(locks):
    order, came = [], []
    blocked = lambda: int(locks.store.client.info("clients")["blocked_clients"])  # noqa: E731 - a probe

    def wait(number):
        came.append(number)
        with locks.lock("a", timeout=30):
            order.append(number)

    with ThreadPoolExecutor(8) as pool, locks.lock("a"):
        for number in range(8):
            pool.submit(wait, number)
            wait_until(lambda n=number: blocked() == n + 1, what="his place in the line")
        locks.lock("b").acquire(timeout=0)
    assert order == came == list(range(8))


def test_one_who_takes_it_again_at_once_does_not_keep_out_those_who_wait(locks):
    got = Event()

    def other():
        with locks.lock("a", timeout=30):
            got.set()

    with ThreadPoolExecutor(1) as pool:
        with locks.lock("a"):
            pool.submit(other)
            wait_until(lambda: int(locks.store.client.info("clients")["blocked_clients"]), what="him")
        with locks.lock("a", timeout=30):
            assert got.is_set()


def test_the_same_thread_is_told_instead_of_waiting_for_itself(locks):
    with locks.lock("a") as lock:
        with pytest.raises(LockHeldHere):
            locks.lock("a").acquire(timeout=0)
        with pytest.raises(LockHeldHere):
            lock.acquire()
        lock.check()


def test_a_lock_is_renewed_for_as_long_as_it_is_held(locks, held):
    with locks.lock("a") as lock:
        first = int(held("a")["until"])
        wait_until(lambda: int(held("a")["until"]) > first + 3 * TTL * 1e6, what="renewals")
        lock.check()


def test_a_light_lock_is_not_renewed_and_lapses(locks):
    lock = locks.lock("a", 0.1, renew=False)
    lock.acquire()
    other = locks.lock("a", 5, renew=False)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(other.acquire, 5).result()
    assert other._hold.held.fence > lock._hold.held.fence
    with pytest.raises(LockLost, match="LOST"):
        lock.check()
    other.release()


def test_a_light_lock_can_be_extended(locks, held):
    lock = locks.lock("a", 0.2, renew=False)
    lock.acquire()
    lock.extend(30)
    assert int(held("a")["until"]) - int(held("a")["acquired"]) > 29e6
    lock.check()
    lock.release()


def test_a_ttl_that_is_none_extends_nothing(locks):
    with locks.lock("a") as lock, pytest.raises(InvalidLock):
        lock.extend(TTL / 2)


def test_a_lost_lock_is_told_at_the_next_check(locks, held):
    lock = locks.lock("a")
    lock.acquire()
    another_takes(locks)
    wait_until(lambda: lock._hold.lost, what="a renewal")
    with pytest.raises(LockLost, match=r"lock 'a' \(fence \d+\) is lost: another"):
        lock.check()
    assert not lock.held
    assert held("a")["token"] == "other"


def test_a_block_that_ran_without_its_lock_does_not_end_as_if_all_were_well(locks):
    with pytest.raises(LockLost, match="before it was released"), locks.lock("a"):
        another_takes(locks)


def test_what_went_wrong_before_is_told_first(locks, caplog):
    def work():
        with locks.lock("a"):
            another_takes(locks)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert "lost before it was released" in caplog.text


def test_after_a_loss_the_lock_may_be_taken_again(locks):
    lock = locks.lock("a", 0.05, renew=False)
    lock.acquire()
    another_takes(locks)
    wait_until(lambda: not lock.held, what="the news")
    locks.store.client.delete(locks.keys.lock("a").lock)
    with locks.lock("a", timeout=0):
        pass


def test_what_was_never_taken_cannot_be_released(locks):
    with pytest.raises(LockLost, match="is not held"):
        locks.lock("a").release()


def test_a_forked_child_does_not_own_the_lock(locks, held):
    with locks.lock("a") as lock:
        pid = os.fork()
        if pid == 0:
            try:
                with pytest.raises(LockLost, match="forked"):
                    lock.check()
                with pytest.raises(LockLost, match="forked"):
                    lock.release()
                os._exit(0 if not lock.held else 2)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        lock.check()
        assert held("a")["fence"] == str(lock.fence)


def test_a_reply_that_is_lost_changes_nothing(locks, elsewhere):
    with every_reply_is_lost():
        for _ in range(3):
            with locks.lock("a") as lock:
                lock.extend()
                lock.check()
        assert locks.lock("a").acquire(timeout=0)


def test_an_interrupted_take_leaves_no_lock_behind(locks, held, monkeypatch):
    lock = locks.lock("a")
    hold = lock._new_hold()
    monkeypatch.setattr(lock, "_new_hold", lambda: hold)
    monkeypatch.setattr(hold, "begin", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        lock.acquire()
    assert "token" not in held("a")


def test_a_redis_that_is_away_is_an_error_and_no_refusal(make_locks, restartable_valkey):
    locks = make_locks(url=restartable_valkey.url)
    restartable_valkey.stop()
    with pytest.raises(RedisError):
        locks.lock("a", timeout=5).acquire()


def test_a_redis_that_is_away_for_longer_than_the_ttl_costs_the_trust_in_a_lock(
    make_locks, restartable_valkey
):
    locks = make_locks(url=restartable_valkey.url)
    lock = locks.lock("a")
    lock.acquire()
    restartable_valkey.stop()
    wait_until(lambda: lock._hold.age >= TTL, what="a TTL without a renewal")
    with pytest.raises(LockLost, match="Redis cannot be reached"):
        lock.check()


def test_a_wait_goes_on_through_a_restart_of_redis(make_locks, restartable_valkey):
    locks = make_locks(url=restartable_valkey.url, denyut_lease_ttl=1.0)
    lock = locks.lock("a", 2, renew=False)
    lock.acquire()
    with ThreadPoolExecutor(1) as pool:
        waiter = locks.lock("a", timeout=60)
        taken = pool.submit(waiter.acquire)
        wait_until(lambda: int(locks.store.client.info("clients")["blocked_clients"]), what="him")
        restartable_valkey.stop()
        restartable_valkey.start()
        assert taken.result(timeout=30)
        waiter.release()


def test_a_flush_under_a_held_lock_costs_it_nothing_while_nobody_takes_it(locks):
    with locks.lock("a") as lock:
        locks.store.client.flushall()
        asked = monotonic()
        wait_until(lambda: lock._hold.held.answered > asked, what="a renewal")
        lock.check()
        with ThreadPoolExecutor(1) as pool:
            assert not pool.submit(locks.lock("a").acquire, 0).result()
