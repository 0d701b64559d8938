"""A pool process that was ended on purpose is told from one that crashed."""

from __future__ import annotations

import os
import signal
import time
from types import SimpleNamespace

import pytest
from support import wait_until

from denyut.signals.ended import was_ended
from denyut.signals.procfs import has_ended
from denyut.tasks.ending import TERMINATED


def kill(pid, number):
    os.kill(pid, number)
    wait_until(lambda: has_ended(pid), what="its end")


def test_a_killed_process_crashed(fork):
    pid = fork()
    kill(pid, signal.SIGKILL)
    before = time.monotonic()
    assert not was_ended(pid, (), lambda: False)
    assert time.monotonic() - before < 0.2, "its job must not wait"


def test_any_process_of_a_worker_that_ends_was_ended_on_purpose(fork):
    pid = fork()
    kill(pid, signal.SIGKILL)
    assert was_ended(pid, (), lambda: True)


def test_a_process_that_the_pool_has_ended_was_ended_on_purpose():
    pool = [SimpleNamespace(pid=7, _controlled_termination=True), SimpleNamespace(pid=8)]
    assert was_ended(7, pool, lambda: False)
    assert not was_ended(8, pool, lambda: False)


@pytest.mark.parametrize("handled", [True, False])
def test_a_process_that_gets_sigterm_a_moment_before_its_worker_was_ended_with_it(fork, handled):
    def leave(*_):
        os._exit(TERMINATED)

    pid = fork(lambda: signal.signal(signal.SIGTERM, leave if handled else signal.SIG_DFL))
    time.sleep(0.1)  # until its handler is there; without it, the default action ends it just as well
    kill(pid, signal.SIGTERM)
    begin = time.monotonic()
    assert was_ended(pid, (), lambda: time.monotonic() - begin > 0.05)
    assert not was_ended(pid, (), lambda: False), "its worker goes on: somebody meant this process"
    assert os.waitpid(pid, os.WNOHANG)[0] == pid, "it stays for the pool to be waited for"
