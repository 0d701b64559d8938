"""Noticing the death of a pool process at once: its pidfd becomes readable (pidfd_open(2))."""

from __future__ import annotations

import os
from contextlib import suppress
from selectors import EVENT_READ, DefaultSelector
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["PidWatch"]


class PidWatch:
    """Watches the processes that run jobs; used by one thread.

    A process that cannot be watched (no pidfd_open in this kernel or sandbox) is still found by its
    lapsed lease.
    """

    def __init__(self) -> None:
        self._selector = DefaultSelector()
        self._fds: dict[int, int] = {}  # pid -> pidfd
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector.register(self._wake_read, EVENT_READ, None)

    def follow(self, pids: Iterable[int]) -> None:
        """Watch exactly ``pids`` from now on."""
        wanted = set(pids)
        for pid in self._fds.keys() - wanted:
            self._drop(pid)
        for pid in wanted - self._fds.keys():
            # Gone already: its fd cannot be had, and its lease lapses.
            with suppress(OSError, AttributeError):
                fd = os.pidfd_open(pid)
                self._fds[pid] = fd
                self._selector.register(fd, EVENT_READ, pid)

    def wait(self, seconds: float) -> list[int]:
        """Wait until a process dies, :meth:`wake` is called, or ``seconds`` are over; return the dead."""
        dead = []
        for key, _ in self._selector.select(max(seconds, 0.0)):
            if key.data is None:
                with suppress(BlockingIOError):
                    os.read(self._wake_read, 4096)
            else:
                dead.append(key.data)
                self._drop(key.data)
        return dead

    def wake(self) -> None:
        """End a :meth:`wait` of another thread."""
        with suppress(BlockingIOError):
            os.write(self._wake_write, b"x")

    def close(self) -> None:
        """Let go of everything."""
        for pid in list(self._fds):
            self._drop(pid)
        self._selector.close()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def _drop(self, pid: int) -> None:
        fd = self._fds.pop(pid)
        self._selector.unregister(fd)
        os.close(fd)
