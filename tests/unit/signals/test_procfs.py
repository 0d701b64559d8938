from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

from support import wait_until

from denyut.signals import procfs
from denyut.signals.procfs import has_ended, usage


def spend(seconds: float) -> None:
    end = sum(os.times()[:2]) + seconds
    while sum(os.times()[:2]) < end:
        pass


def test_cpu_seconds_agree_with_what_the_process_knows_of_itself():
    spend(0.1)
    mine = sum(os.times()[:2])
    assert abs(usage(os.getpid()).cpu_s - mine) <= 0.05


def test_cpu_seconds_of_all_threads_count():
    before = usage(os.getpid()).cpu_s
    thread = threading.Thread(target=spend, args=(0.1,))
    thread.start()
    thread.join()
    assert usage(os.getpid()).cpu_s >= before + 0.08


def test_memory_that_is_touched_shows_and_its_peak_stays():
    before = usage(os.getpid())
    block = bytearray(64 << 20)
    held = usage(os.getpid())
    del block
    after = usage(os.getpid())
    assert held.rss_mb >= before.rss_mb + 60
    assert after.rss_mb <= held.rss_mb - 60
    assert after.rss_peak_mb >= held.rss_mb - 1


def test_a_name_with_brackets_and_spaces_does_not_confuse():
    rename = "import ctypes; ctypes.CDLL(None).prctl(15, b') R 1 (x', 0, 0, 0); print(1, flush=True); input()"
    process = subprocess.Popen(
        [sys.executable, "-c", rename], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    process.stdout.readline()
    assert usage(process.pid).rss_mb > 1
    assert not has_ended(process.pid)
    process.communicate("")


def test_a_zombie_uses_nothing_and_has_ended(fork):
    pid = fork()
    assert not has_ended(pid)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: has_ended(pid), what="the zombie")
    assert usage(pid) is None
    os.waitpid(pid, 0)
    assert usage(pid) is None
    assert has_ended(pid)


def test_without_a_proc_that_tells_of_us_nobody_is_taken_for_dead(monkeypatch):
    monkeypatch.setattr(procfs, "_read", lambda _: b"")
    assert not has_ended(2**22 - 1)
    assert usage(os.getpid()) is None
