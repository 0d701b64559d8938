from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from support import wait_until

from denyut.signals.pidwatch import PidWatch
from denyut.signals.procfs import has_ended
from denyut.signals.wake import Wake


@pytest.fixture
def wake():
    wake = Wake()
    yield wake
    wake.close()


@pytest.fixture(params=["pidfd", "looking"])
def watch(request, wake, monkeypatch):
    if request.param == "looking":

        def refuse(_: int) -> int:
            raise OSError(38, "Function not implemented")

        monkeypatch.setattr(os, "pidfd_open", refuse)
    watch = PidWatch(wake)
    yield watch
    watch.close()


def test_a_killed_process_ends_the_wait_long_before_its_time(watch, fork):
    pids = [fork(), fork()]
    assert watch.follow(pids) == []
    os.kill(pids[1], signal.SIGKILL)
    begin = time.monotonic()
    assert watch.wait(60) == [pids[1]]
    assert time.monotonic() - begin < 30


def test_an_ended_process_is_told_once_also_before_it_is_reaped(watch, fork):
    pid = fork()
    watch.follow([pid])
    os.kill(pid, signal.SIGKILL)
    assert watch.wait(60) == [pid]
    watch.follow([])
    assert watch.wait(0.01) == []


def test_a_process_that_ended_before_it_was_followed_is_told_at_once(watch, fork):
    zombie, reaped = fork(), fork()
    for pid in (zombie, reaped):
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda pid=pid: has_ended(pid), what="its end")
    os.waitpid(reaped, 0)
    told = watch.follow([zombie, reaped])
    told += watch.wait(60) if len(told) < 2 else []
    assert sorted(told) == sorted([zombie, reaped])


def test_a_process_that_is_not_followed_any_more_is_not_told(watch, fork):
    pid = fork()
    watch.follow([pid])
    watch.follow([])
    os.kill(pid, signal.SIGKILL)
    assert watch.wait(0.1) == []


def test_the_wait_ends_in_time_when_nothing_happens(watch, fork):
    watch.follow([fork()])
    begin = time.monotonic()
    assert watch.wait(0.12) == []
    assert time.monotonic() - begin >= 0.12


def test_another_thread_ends_the_wait(watch, wake):
    timer = threading.Timer(0.05, wake.set)
    timer.start()
    begin = time.monotonic()
    assert watch.wait(60) == []
    assert time.monotonic() - begin < 30
    timer.join()
    assert watch.wait(0.01) == []


def test_a_forked_process_ends_the_wait(watch, wake, fork):
    fork(wake.set)
    begin = time.monotonic()
    assert watch.wait(60) == []
    assert time.monotonic() - begin < 30


def test_a_wake_before_the_wait_is_not_lost(watch, wake):
    wake.set()
    wake.set()
    begin = time.monotonic()
    assert watch.wait(60) == []
    assert time.monotonic() - begin < 30
    assert watch.wait(0.01) == []


def test_a_forked_childs_copies_do_not_disturb_the_watch(watch, fork):
    first = fork()
    watch.follow([first])
    fork()  # has copies of all descriptors, and closes none
    os.kill(first, signal.SIGKILL)
    assert watch.wait(60) == [first]
    watch.follow([])
    assert watch.wait(0.01) == []


def test_no_descriptor_is_left_behind(wake, fork):
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        watch = PidWatch(wake)
        watch.follow([fork(), fork()])
        watch.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
