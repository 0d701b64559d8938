"""Stopping the bodies of a pool of threads: an exception that Python raises in another thread.

The heartbeat's signal reaches the worker's main thread. From there ``PyThreadState_SetAsyncExc`` (Python/C
API, "Thread State and the Global Interpreter Lock") has the thread of a flagged body raise as soon as it runs
Python code again: not while it sleeps, waits for a lock or a socket, or computes in C. Nothing is raised in
the code around a body: it takes itself off the list first, and with that what has not been raised yet. What
is raised in a finalizer is dropped by Python; the heartbeat tells a body again until it has ended.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from time import monotonic
from typing import TYPE_CHECKING, Any

from denyut.errors import JobInterrupt

if TYPE_CHECKING:
    from collections.abc import Callable

    from denyut.tasks.run import JobRun

__all__ = ["ThreadBodies"]

_DEEPEST = 100  # exceptions that led to one another
#: A thread is not told twice within so long (s): there is time to end what the first has begun.
_AGAIN = 0.05


class ThreadBodies:
    """The bodies that run in threads of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bodies: dict[int, JobRun] = {}
        self._told: dict[int, float] = {}  # when a thread was last told

    def run(self, run: JobRun, body: Callable[[], Any]) -> Any:
        """Return what ``body`` returns; meanwhile :meth:`tell` may stop it.

        Raises:
            JobInterrupt: without a message; ``run.interrupt`` is the one to be told.
            BaseException: what the body raised.
        """
        slot, ident = run.slot, threading.get_ident()
        assert slot is not None
        try:
            self._bodies[ident] = run
            slot.enter_body()
            if slot.flags:  # told before it was on the list
                run.check()
            return body()
        finally:
            self._end(ident, run)

    def tell(self) -> bool:
        """Have every flagged body raise; return whether there are bodies. To be called in the main thread."""
        if not self._lock.acquire(blocking=False):
            return True  # a body ends just now, or this interrupts itself; the heartbeat tells again
        try:
            handled = sys._current_exceptions()  # noqa: SLF001 - the one way to see them
            for ident, run in list(self._bodies.items()):
                interrupt, now = run.told_to_stop(), monotonic()
                soon = now - self._told.get(ident, float("-inf")) < _AGAIN
                if interrupt is not None and not soon and not _cleans_up(handled.get(ident)):
                    run.interrupt = run.interrupt or interrupt
                    self._told[ident] = now
                    _raise_in(ident, type(interrupt))
            return bool(self._bodies)
        finally:
            self._lock.release()

    def _end(self, ident: int, run: JobRun) -> None:
        assert run.slot is not None
        try:
            self._take_off(ident)
        except JobInterrupt:  # it came in between, and another does not come so soon
            self._take_off(ident)
        run.slot.leave_body()

    def _take_off(self, ident: int) -> None:
        with self._lock:
            self._bodies.pop(ident, None)
            self._told.pop(ident, None)
            _raise_in(ident, None)  # what was to be raised is not


def _cleans_up(handled: Any) -> bool:
    """Whether a thread is in an ``except`` or ``finally`` that an interrupt has led to."""
    exc = handled[1] if isinstance(handled, tuple) else handled  # a triple in Python 3.11
    for _ in range(_DEEPEST):
        if exc is None or isinstance(exc, JobInterrupt):
            break
        exc = exc.__context__
    return exc is not None


def _raise_in(ident: int, kind: type[BaseException] | None) -> None:
    what = ctypes.py_object() if kind is None else ctypes.py_object(kind)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), what)
