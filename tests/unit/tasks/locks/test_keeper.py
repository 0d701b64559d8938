from __future__ import annotations

import logging
import os
import threading
from time import monotonic

import pytest
from support import wait_until
from unit.tasks.locks.conftest import TTL

from denyut.tasks.locks.holds import OwnHold
from denyut.tasks.locks.steps import Held, acquire


@pytest.fixture
def take(locks):
    """Take a lock, kept by the keeper of the app."""

    def make(name: str, ttl: float = TTL) -> OwnHold:
        client, token = locks.store.client, f"t{name}"
        options = {"ttl": ttl, "baton": "", "waits": 0.0, "job": "", "lease_ttl": TTL}
        fence = acquire(client, locks.keys, name=name, token=token, **options)
        hold = OwnHold(locks.lock_keeper)
        hold.begin(Held(name, token, fence, ttl, monotonic(), os.getpid(), ""))
        return hold

    return make


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "denyut-locks"]


def test_one_thread_renews_all_locks_and_ends_when_there_are_none(take, held):
    holds = [take(name) for name in ("a", "b", "c")]
    first = {hold.held.name: int(held(hold.held.name)["until"]) for hold in holds}
    for name, until in first.items():
        wait_until(lambda n=name, u=until: int(held(n)["until"]) > u + 2 * TTL * 1e6, what="renewals")
    assert len(threads()) == 1
    for hold in holds:
        hold.end()
    wait_until(lambda: not threads(), what="the end of the thread")
    assert not any(hold.lost for hold in holds)


def test_a_lock_that_another_has_is_lost(take, locks, held):
    hold = take("a")
    locks.store.client.hset(locks.keys.lock("a").lock, mapping={"token": "x", "fence": hold.held.fence + 1})
    wait_until(lambda: hold.lost, what="the news")
    assert held("a")["token"] == "x"


def test_a_redis_that_is_away_for_a_while_costs_no_lock(make_locks, restartable_valkey, caplog):
    locks = make_locks(url=restartable_valkey.url, denyut_lease_ttl=3.0)
    with locks.lock("a") as lock, caplog.at_level(logging.WARNING):
        restartable_valkey.stop()
        wait_until(lambda: "locks: " in caplog.text, what="a complaint")
        restartable_valkey.start()
        began = monotonic()
        wait_until(lambda: lock._hold.held.answered > began, what="a renewal")
        lock.check()


def test_a_fork_renews_nothing_of_its_parent(take, locks):
    hold = take("a")
    pid = os.fork()
    if pid == 0:
        try:
            locks.lock_keeper.drop(hold)
            other = OwnHold(locks.lock_keeper)
            other.begin(hold.held._replace(name="b"))
            os._exit(0 if locks.lock_keeper._holds == {other} else 2)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert locks.lock_keeper._holds == {hold}
