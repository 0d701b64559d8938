"""The process itself: what it knows of the messages in hand, and how it ends."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from time import monotonic

import pytest

from denyut.signals.beat_process import ToldHeld

CODE = "import sys; from denyut.signals.beat_process import main; main(int(sys.argv[1]))"


def test_what_it_was_told_is_in_hand_since_then():
    held, now = ToldHeld(), monotonic()
    held.change(["a", "b"], [], now - 10)
    held.change(["c"], ["a", "ghost"], now)
    assert held.snapshot_older_than(5) == ["b"]
    assert held.snapshot_older_than(0) == ["b", "c"]


@pytest.fixture
def start():
    """Start the process at one end of a socket."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-c", CODE, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
    with ours:
        yield ours, process
    process.kill()
    process.communicate()


def test_without_a_worker_it_ends(start):
    ours, process = start
    ours.close()
    _, error = process.communicate(timeout=30)
    assert process.returncode == 1
    assert b"ended before it had said anything" in error


def test_it_imports_neither_celery_nor_sqlalchemy():
    code = (
        "import sys, denyut.signals.beat_process\n"
        "loaded = {name.partition('.')[0] for name in sys.modules}\n"
        "print(sorted({'celery', 'kombu', 'billiard', 'sqlalchemy'} & loaded))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        check=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert found.stdout.strip() == "[]"
