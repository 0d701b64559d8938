"""Noticing the death of a pool process at once: its pidfd becomes readable (pidfd_open(2))."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from selectors import EVENT_READ, PollSelector
from time import monotonic
from typing import TYPE_CHECKING

from denyut.signals.procfs import has_ended

if TYPE_CHECKING:
    from collections.abc import Iterable

    from denyut.signals.wake import Wake

__all__ = ["PidWatch"]

#: How often processes are looked at that cannot be watched (s).
_LOOK_EVERY = 0.05


class PidWatch:
    """Watches the pool processes; used by one thread.

    Where pidfd_open is missing (an old kernel, a sandbox, no descriptor left), a process is looked at
    in /proc every 50 ms instead. The selector keeps nothing in the kernel: forked children share
    their parent's epoll, and must not be able to disturb it.

    Args:
        wake: ends a wait; stays open after :meth:`close`.
    """

    def __init__(self, wake: Wake) -> None:
        self._wake = wake
        self._selector = PollSelector()
        self._selector.register(wake.fd, EVENT_READ, None)
        self._fds: dict[int, int] = {}  # pid -> pidfd
        self._looked_at: set[int] = set()  # pids without a pidfd

    def follow(self, pids: Iterable[int]) -> list[int]:
        """Watch exactly ``pids`` from now on. Returns those that have ended already."""
        wanted = set(pids)
        for pid in self._fds.keys() - wanted:
            self._drop(pid)
        self._looked_at &= wanted
        return [pid for pid in wanted - self._fds.keys() - self._looked_at if not self._add(pid)]

    def wait(self, seconds: float) -> list[int]:
        """Wait until a process ends, the wake is set, or ``seconds`` are over; return those that ended."""
        deadline = monotonic() + seconds
        while True:
            left = max(deadline - monotonic(), 0.0)
            ready = self._selector.select(min(left, _LOOK_EVERY) if self._looked_at else left)
            ended = [key.data for key, _ in ready if key.data is not None]
            for pid in ended:
                self._drop(pid)
            gone = [pid for pid in self._looked_at if has_ended(pid)]
            self._looked_at.difference_update(gone)
            if ready or gone or monotonic() >= deadline:
                self._wake.clear()
                return ended + gone

    def send(self, pid: int, number: int) -> None:
        """Send a signal to ``pid`` if it is watched and has not ended: to no later process of that number."""
        with suppress(ProcessLookupError):
            if (fd := self._fds.get(pid)) is not None:
                signal.pidfd_send_signal(fd, number)
            elif pid in self._looked_at and not has_ended(pid):
                os.kill(pid, number)

    def close(self) -> None:
        """Watch nothing any more."""
        for pid in list(self._fds):
            self._drop(pid)
        self._selector.close()

    def _add(self, pid: int) -> bool:
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            return False
        except (OSError, AttributeError):
            self._looked_at.add(pid)
            return True
        self._fds[pid] = fd
        self._selector.register(fd, EVENT_READ, pid)
        return True

    def _drop(self, pid: int) -> None:
        fd = self._fds.pop(pid)
        self._selector.unregister(fd)
        os.close(fd)
