"""Many readers of one job make one read."""

from __future__ import annotations

import os
from threading import Event, Thread

import pytest
from support import wait_until

from denyut.monitoring.cache import StatusCache


class Source:
    """Answers ``(job_id, number of the read)``; can be made to wait and to fail."""

    def __init__(self) -> None:
        self.reads = 0
        self.go = Event()
        self.go.set()
        self.error: Exception | None = None

    def read(self, job_id: str):
        self.reads += 1
        number = self.reads
        assert self.go.wait(10)
        if self.error:
            raise self.error
        return (job_id, number)


@pytest.fixture
def source() -> Source:
    return Source()


def in_threads(count: int, work) -> tuple[list[Thread], list]:
    answers: list = []

    def run() -> None:
        try:
            answers.append(work())
        except OSError as exc:
            answers.append(exc)

    threads = [Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    return threads, answers


def join(threads: list[Thread]) -> None:
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()


def test_a_status_is_good_for_a_moment(source):
    cache = StatusCache(source.read, keep=60)
    assert cache.get("a") == cache.get("a") == ("a", 1)
    assert cache.get("b") == ("b", 2)


def test_an_old_status_is_read_again(source):
    cache = StatusCache(source.read, keep=0)
    assert [cache.get("a"), cache.get("a")] == [("a", 1), ("a", 2)]


def test_fresh_reads_now_and_others_profit(source):
    cache = StatusCache(source.read, keep=60)
    cache.get("a")
    assert cache.get("a", fresh=True) == ("a", 2)
    assert cache.get("a") == ("a", 2)


def test_concurrent_readers_wait_for_one_read(source):
    cache = StatusCache(source.read, keep=60)
    source.go.clear()
    threads, answers = in_threads(8, lambda: cache.get("a"))
    wait_until(lambda: source.reads, what="the first reader to read")
    source.go.set()
    join(threads)
    assert answers == [("a", 1)] * 8


def test_fresh_is_never_answered_by_a_read_that_began_before_it_asked(source):
    cache = StatusCache(source.read, keep=60)
    source.go.clear()
    early, _ = in_threads(1, lambda: cache.get("a"))
    wait_until(lambda: source.reads, what="the first reader to read")
    late, answers = in_threads(1, lambda: cache.get("a", fresh=True))
    source.go.set()
    join(early + late)
    assert answers == [("a", 2)]


def test_who_waited_for_a_read_that_failed_gets_its_error_and_the_next_one_reads_anew(source):
    cache = StatusCache(source.read, keep=60)
    source.go.clear()
    source.error = OSError("Redis is away")
    threads, answers = in_threads(4, lambda: cache.get("a"))
    wait_until(lambda: source.reads, what="the first reader to read")
    waiting = cache._entries["a"].lock
    wait_until(waiting.locked, what="it to hold the lock")
    source.go.set()
    join(threads)
    assert all(isinstance(answer, OSError) for answer in answers)
    source.error = None
    assert cache.get("a") == ("a", source.reads)


def test_the_cache_is_bounded_and_forgets_what_was_not_read_for_longest(source):
    cache = StatusCache(source.read, keep=60, most=2)
    for job_id in ("a", "b", "a", "c"):
        cache.get(job_id)
    assert source.reads == 3
    cache.get("a")
    assert source.reads == 3
    cache.get("b")
    assert source.reads == 4


def test_a_forked_process_does_not_wait_for_a_lock_that_its_parent_held(source):
    cache = StatusCache(source.read, keep=60)
    cache.get("a")
    with cache._entries["a"].lock, cache._lock:
        pid = os.fork()
        if pid == 0:
            ok = cache.get("a") == ("a", 2)
            os._exit(0 if ok else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
