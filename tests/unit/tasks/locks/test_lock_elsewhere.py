"""A lock among processes, which are killed and stopped; an outside judge reads what they did."""

from __future__ import annotations

import os
import signal
from itertools import pairwise
from time import monotonic

import pytest
from support import wait_until
from unit.tasks.locks.conftest import TTL


def tell(process, word):
    process.stdin.write(f"{word}\n")
    process.stdin.flush()


def test_of_two_processes_that_take_it_a_thousand_times_no_two_have_it_at_once(elsewhere, tmp_path):
    diary = tmp_path / "diary"
    both = [elsewhere("contend", "a", "500", str(diary)) for _ in range(2)]
    assert [each.stdout.readline() for each in both] == ["ready\n"] * 2
    for each in both:
        tell(each, "go")
    assert [each.stdout.readline() for each in both] == ["done\n"] * 2
    lines = [line.split() for line in diary.read_text().splitlines()]
    inside, outside = lines[::2], lines[1::2]
    assert len(inside) == 1000
    assert {word for word, _, _ in inside} == {"in"}
    assert [line[1:] for line in inside] == [line[1:] for line in outside]
    fences = [int(fence) for _, _, fence in inside]
    assert all(a < b for a, b in pairwise(fences))
    turns = sum(a[1] != b[1] for a, b in pairwise(inside))
    assert turns > 300, "they take turns"


def test_the_lock_of_a_killed_process_is_free_within_its_ttl(locks, elsewhere):
    holder = elsewhere("hold", "a")
    fence = int(holder.stdout.readline())
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    began = monotonic()
    with locks.lock("a", timeout=10) as lock:
        assert monotonic() - began < TTL + 1
        assert lock.fence > fence


def test_a_process_that_was_stopped_past_its_ttl_is_refused_when_it_goes_on(locks, elsewhere, held):
    holder = elsewhere("hold", "a")
    fence = int(holder.stdout.readline())
    os.kill(holder.pid, signal.SIGSTOP)
    with locks.lock("a", timeout=10) as lock:
        assert lock.fence > fence
        os.kill(holder.pid, signal.SIGCONT)
        for word in ("check", "extend", "release"):
            tell(holder, word)
            assert holder.stdout.readline() == "LockLost\n"
        assert held("a")["fence"] == str(lock.fence)
        lock.check()


@pytest.mark.parametrize("word", ["extend", "release"])
def test_a_process_that_was_stopped_and_asks_without_a_check_is_refused(locks, elsewhere, held, word):
    holder = elsewhere("hold", "a")
    holder.stdout.readline()
    os.kill(holder.pid, signal.SIGSTOP)
    with locks.lock("a", timeout=10) as lock:
        os.kill(holder.pid, signal.SIGCONT)
        tell(holder, word)
        assert holder.stdout.readline() == "LockLost\n"
        assert held("a")["fence"] == str(lock.fence)


def test_a_killed_waiter_is_passed_over(locks, elsewhere):
    with locks.lock("a"):
        waiter = elsewhere("hold", "a")
        wait_until(lambda: int(locks.store.client.info("clients")["blocked_clients"]), what="him")
        os.kill(waiter.pid, signal.SIGKILL)
        waiter.wait()
        wait_until(lambda: not int(locks.store.client.info("clients")["blocked_clients"]), what="his end")
    began = monotonic()
    with locks.lock("a", timeout=30):
        assert monotonic() - began < 1.0
