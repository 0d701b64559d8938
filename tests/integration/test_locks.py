"""Locks that jobs hold: renewed by the heartbeat on every pool, and free when their job is over."""

from __future__ import annotations

import os
import signal
import time
from itertools import pairwise

import pytest
from celery.exceptions import TimeoutError as NotYetError
from support import wait_until

TTL = 1.0
POOLS = ("prefork", "prefork process", "solo", "threads", "gevent")
FOR_EVER = 60  # letters: the match does not end in this universe


class Lock:
    """What Redis says of one lock."""

    def __init__(self, pulse, name: str) -> None:
        self.client, self.at = pulse.store.client, pulse.keys.lock(name).lock

    def all(self) -> dict[str, str]:
        return {key.decode(): value.decode() for key, value in self.client.hgetall(self.at).items()}

    def taken(self) -> dict[str, str]:
        """Wait until somebody has it."""
        return wait_until(lambda: (all_ := self.all()).get("token") and all_, timeout=30, what="the lock")

    def over(self) -> bool:
        """Whether it is free, or its time is over."""
        seconds, micros = self.client.time()
        found = self.all()
        return "token" not in found or int(found["until"]) <= seconds * 10**6 + micros


@pytest.fixture
def start(worker):
    def make(pool: str = "prefork", **options):
        name, _, heartbeat = pool.partition(" ")
        env = {"LEASE_TTL": str(TTL), "HEARTBEAT": heartbeat or "auto", **options.pop("env", {})}
        return worker("apps.locking", env=env, pool=name, **{"concurrency": 1, **options})

    return make


@pytest.mark.parametrize("pool", POOLS)
def test_a_job_that_holds_the_gil_for_five_ttls_keeps_its_lock_on_every_pool(start, pool):
    node = start(pool)
    node.module.compute.delay("a", FOR_EVER)
    lock = Lock(node.app.denyut, "a")
    token, first = (found := lock.taken())["token"], found["until"]
    wait_until(lambda: lock.all()["until"] != first, what="the first beat")
    end = time.monotonic() + 5 * TTL
    while time.monotonic() < end:
        assert lock.all()["token"] == token
        assert not lock.over()
        time.sleep(0.02)  # between two looks


def test_the_lock_of_a_killed_pool_process_is_free_at_once(start):
    node = start(env={"LEASE_TTL": "20.0"})
    node.module.compute.delay("a", FOR_EVER)
    lock = Lock(node.app.denyut, "a")
    found = lock.taken()
    wait_until(lambda: int(lock.all()["until"]) > int(found["until"]), timeout=30, what="a renewal")
    os.kill(int(found["pid"]), signal.SIGKILL)
    wait_until(lambda: lock.all().get("token") != found["token"], timeout=10, what="the release")


def test_the_locks_of_a_killed_worker_lapse_within_their_ttl(start):
    node = start("threads")
    node.module.sleep.delay("a", 600)
    lock = Lock(node.app.denyut, "a")
    fence = lock.taken()["fence"]
    node.kill()
    wait_until(lock.over, timeout=TTL + 2, what="the end of its lock")
    assert lock.all()["fence"] == fence


def test_a_worker_that_was_stopped_past_the_ttl_of_its_lock_is_refused_when_it_goes_on(start):
    node = start("threads")
    result = node.module.sleep.delay("a", 600)
    lock, pids = Lock(node.app.denyut, "a"), [node.pid, *node.pool_pids]
    fence = int(lock.taken()["fence"])
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    wait_until(lock.over, timeout=TTL + 10, what="the end of its lock")
    mine = node.app.denyut.lock("a", 60)
    with mine:
        assert mine.fence > fence
        for pid in pids:
            os.kill(pid, signal.SIGCONT)

        def refused():
            """Its lease has lapsed as well: it may have been given up for a next one, which waits."""
            status = node.app.denyut.jobs.get(result.id, fresh=True)
            return status.terminal or status.attempt > 1

        wait_until(refused, timeout=30, what="the end of the attempt")
        if result.ready():
            with pytest.raises(Exception, match=r"lock 'a'.*is lost"):
                result.get(timeout=5)
        mine.check()
    node.app.denyut.lock_keeper.stop()


def test_a_job_that_forgets_its_lock_does_not_keep_it(start):
    node = start()
    fence = node.module.forget.delay("a").get(timeout=30)
    lock = Lock(node.app.denyut, "a")
    wait_until(lambda: "token" not in lock.all(), what="the release")
    assert lock.all()["fence"] == str(fence)
    assert node.module.forget.delay("a").get(timeout=30) > fence


@pytest.mark.parametrize("task", ["sleep", "advance"])
def test_a_job_whose_lock_was_taken_away_fails_at_its_next_check_or_progress(start, task):
    node = start()
    result = getattr(node.module, task).delay("a", 600)
    found = Lock(node.app.denyut, "a").taken()
    pulse = node.app.denyut
    at = pulse.keys.lock("a").lock
    pulse.store.client.hset(at, mapping={"token": "x", "fence": int(found["fence"]) + 1})
    with pytest.raises(Exception, match=r"lock 'a'.*is lost"):
        result.get(timeout=TTL + 10)


def test_a_cancelled_job_releases_its_lock(start):
    node = start()
    result = node.module.sleep.delay("a", 600)
    lock = Lock(node.app.denyut, "a")
    lock.taken()
    node.app.denyut.jobs.cancel(result.id)
    wait_until(lambda: "token" not in lock.all(), what="the release")


def test_a_job_that_waits_for_a_lock_is_cancelled_in_milliseconds(start):
    node = start()
    mine = node.app.denyut.lock("a")
    with mine:
        result = node.module.sleep.delay("a", 600)
        client = node.app.denyut.store.client
        wait_until(lambda: client.hget(node.app.denyut.keys.lock("a").lock, "waited"), timeout=30, what="it")
        with pytest.raises(NotYetError):
            result.get(timeout=0.2)
        node.app.denyut.jobs.cancel(result.id)
        wait_until(lambda: node.app.denyut.jobs.get(result.id, fresh=True).terminal, what="its end")
    node.app.denyut.lock_keeper.stop()


@pytest.mark.parametrize("pool", ["threads", "gevent"])
def test_jobs_of_many_processes_are_inside_one_at_a_time(start, pool):
    node = start(pool, concurrency=4)
    other = start("prefork", concurrency=2)
    results = [node.module.enter.delay("a", 0.005) for _ in range(60)]
    for result in results:
        result.get(timeout=60)
    diary = [line.decode().split() for line in other.app.denyut.store.client.lrange("diary", 0, -1)]
    inside, outside = diary[::2], diary[1::2]
    assert [word for word, _ in inside] == ["in"] * 60
    assert [fence for _, fence in inside] == [fence for _, fence in outside]
    fences = [int(fence) for _, fence in inside]
    assert all(a < b for a, b in pairwise(fences))
