"""Which locks this process has, or waits for, and by which thread: so that none waits for itself."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

from denyut.errors import LockHeldHere

if TYPE_CHECKING:
    from denyut.tasks.locks.lock import Lock

__all__ = ["enter", "leave", "of_run"]

#: Who has which lock: (app, name, thread) -> lock. A greenlet counts as a thread.
_taken: dict[tuple[int, str, int], Lock] = {}
_pid = 0


def enter(lock: Lock) -> None:
    """Note that this thread has ``lock``, or is about to wait for it.

    Raises:
        LockHeldHere: if it has it already, or if the object is in use elsewhere.
    """
    global _pid  # noqa: PLW0603 - of the process, as threads are
    if _pid != os.getpid():  # a fork has none of its parent's locks
        _taken.clear()
        _pid = os.getpid()
    key = _key(lock)
    if lock.place is not None and _taken.get(lock.place) is lock:
        who = "this thread" if lock.place == key else "another thread, through this very object,"
    elif key in _taken:
        who = "this thread"
    else:
        _taken[key], lock.place = lock, key
        return
    raise LockHeldHere(
        f"lock {lock.name!r}: {who} has it already, or waits for it; locks are not re-entrant: take it "
        "once, outside, and make an object with app.denyut.lock() for each use"
    )


def leave(lock: Lock) -> None:
    """Note that ``lock`` is not held any more. May be called twice."""
    if lock.place is not None:
        if _taken.get(lock.place) is lock:
            del _taken[lock.place]
        lock.place = None


def of_run(run: Any) -> list[Lock]:
    """Return the locks that the job ``run`` holds; of most jobs nobody asks, as there are none at all."""
    return [lock for lock in list(_taken.values()) if lock.run is run] if _taken else []


def _key(lock: Lock) -> tuple[int, str, int]:
    return (id(lock.pulse), lock.name, threading.get_ident())  # gevent may replace it later
