"""What many tests need: waiting with a deadline, processes that end with the run, leaks made visible."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, NoReturn, TypeVar

import pytest
from celery.exceptions import WorkerTerminate

T = TypeVar("T")

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None, use_errno=True)

#: Pids of processes that live as long as the test session (the shared server).
SESSION_PIDS: set[int] = set()

#: Child processes that a test may leave behind: a word of the command line, and why.
ALLOWED_CHILDREN = {
    "resource_tracker": "multiprocessing starts one per process and keeps it until exit",
    "semaphore_tracker": "billiard's name for the same",
}
#: Threads that a test may leave behind: how the name begins, and why.
ALLOWED_THREADS = {
    "pytest_timeout": "the timer of the running test",
    "OTel": "OpenTelemetry's exporters are per process",
}


class DiedError(WorkerTerminate):  # type: ignore[misc]
    """Raised in a body, it stands for the death of the process: the run is abandoned as it is.

    Celery's word for a worker that ends at once; any other ``BaseException`` is how a task fails.
    """


def wait_until(
    predicate: Callable[[], T], timeout: float = 10.0, what: str = "", *, every: float = 0.01
) -> T:
    """Poll ``predicate`` until it is true and return what it returned.

    Fails the test after ``timeout`` seconds, saying ``what`` was waited for and the last value seen.
    """
    deadline = time.monotonic() + timeout
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() >= deadline:
            name = what or getattr(predicate, "__name__", repr(predicate))
            pytest.fail(f"waited {timeout:g} s in vain for: {name} (last value: {value!r})")
        time.sleep(every)


def missing(service: str, how: str) -> NoReturn:
    """Skip the test because ``service`` is not there; in CI that is a failure, never a skip."""
    message = f"{service} is not available; {how}"
    if os.environ.get("CI", "").lower() in {"1", "true", "yes"}:
        pytest.fail(f"{message} (CI=true: a missing service is a failure)")
    pytest.skip(message)


def free_port() -> int:
    """Return a port of 127.0.0.1 that the kernel says is free. Somebody may take it before you do."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def die_with_parent() -> None:
    """For ``preexec_fn``: the kernel kills this process when the thread that started it ends.

    So a killed pytest leaves no server and no worker behind. Start such processes in the main thread.
    """
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def adopt_orphans() -> None:
    """Make this process the parent of orphaned descendants, so that leaked grandchildren are seen."""
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class Process(NamedTuple):
    """One process as /proc shows it."""

    pid: int
    ppid: int
    state: str
    start: int  # clock ticks since boot: with the pid, an identity
    command: str


def process(pid: int) -> Process | None:
    """Return the process ``pid``, or None if there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()
    name = stat.partition("(")[2].rpartition(")")[0]
    return Process(pid, int(fields[1]), fields[0], int(fields[19]), command.strip() or f"[{name}]")


def is_running(pid: int) -> bool:
    """Return whether ``pid`` is a process that has not ended (a zombie has)."""
    found = process(pid)
    return found is not None and found.state not in "ZX"


def children(pid: int | None = None) -> dict[int, Process]:
    """Return the direct children of ``pid`` (default: of this process) by pid."""
    parent = os.getpid() if pid is None else pid
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return {p.pid: p for p in map(process, pids) if p is not None and p.ppid == parent}


@contextmanager
def no_leaks(timeout: float = 5.0) -> Iterator[None]:
    """Fail if threads or child processes that were started inside are still there at the end."""
    threads = set(threading.enumerate())
    before = {(p.pid, p.start) for p in children().values()}
    yield
    deadline = time.monotonic() + timeout
    while leaked := _leaked_threads(threads) + _leaked_children(before):
        if time.monotonic() >= deadline:
            pytest.fail("the test left behind: " + "; ".join(leaked))
        time.sleep(0.02)


def _leaked_threads(before: set[threading.Thread]) -> list[str]:
    return [
        f"thread {thread.name!r}"
        for thread in threading.enumerate()
        if thread not in before and not thread.name.startswith(tuple(ALLOWED_THREADS))
    ]


def _leaked_children(before: set[tuple[int, int]]) -> list[str]:
    leaked = []
    for child in children().values():
        if (child.pid, child.start) in before or child.pid in SESSION_PIDS:
            continue
        if child.state in "ZX":
            _reap(child.pid)
        elif not any(word in child.command for word in ALLOWED_CHILDREN):
            leaked.append(f"process {child.pid} ({child.command[:100]})")
    return leaked


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return  # its Popen object was faster
