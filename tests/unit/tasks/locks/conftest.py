"""Locks on the private server, and processes of their own that hold some."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support import die_with_parent

from denyut import scripts
from denyut.tasks.locks import taken

TTL = 0.5


@pytest.fixture
def make_locks(pulse):
    """Make ``Denyut`` objects with a short lease, whose thread for locks ends with the test."""
    made: list[Any] = []

    def make(**conf: Any) -> Any:
        made.append(pulse(**{"denyut_lease_ttl": TTL} | conf))
        return made[-1]

    yield make
    taken._taken.clear()
    for each in made:
        each.lock_keeper.stop()


@pytest.fixture
def locks(make_locks) -> Any:
    return make_locks()


@pytest.fixture
def held(locks) -> Callable[[str], dict[str, str]]:
    """What Redis has of a lock."""

    def read(name: str) -> dict[str, str]:
        raw = locks.store.client.hgetall(locks.keys.lock(name).lock)
        return {key.decode(): value.decode() for key, value in raw.items()}

    return read


@pytest.fixture
def elsewhere(valkey_server, locks):
    """Start ``holding.py`` in a process of its own: ``elsewhere("hold", "name")``; reads its lines."""
    started: list[subprocess.Popen[str]] = []

    def start(*words: str, url: str | None = None) -> subprocess.Popen[str]:
        program = [sys.executable, str(Path(__file__).parent / "holding.py")]
        settings = [url or valkey_server.url, locks.keys.prefix, str(locks.settings.lease_ttl)]
        process = subprocess.Popen(
            [*program, *settings, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=die_with_parent,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        process.stdin.close()


@contextmanager
def every_reply_is_lost() -> Iterator[list[str]]:
    """Send every script twice, as a client does whose first reply did not arrive; yields their names."""
    quick, names = scripts._quick, []

    def twice(client: Any, calls: Any) -> Any:
        names.extend(script.name for script, _, _ in calls)
        quick(client, calls)
        return quick(client, calls)

    scripts._quick = twice
    try:
        yield names
    finally:
        scripts._quick = quick


def another_takes(locks, name="a"):
    """What Redis has when another has taken the lock over."""
    at = locks.keys.lock(name).lock
    fence = int(locks.store.client.hget(at, "fence"))
    locks.store.client.hset(at, mapping={"token": "other", "fence": fence + 1})
