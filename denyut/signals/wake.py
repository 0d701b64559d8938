"""Ending a wait from another thread or process (eventfd(2))."""

from __future__ import annotations

import os
from contextlib import suppress

__all__ = ["Wake"]


class Wake:
    """Ends a :meth:`PidWatch.wait`, from any thread, and from any process forked since it was made.

    Args:
        fd: of one that another process has made; None: a new one.
    """

    def __init__(self, fd: int | None = None) -> None:
        self.fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC) if fd is None else fd

    def set(self) -> None:
        """End the wait that is on, or the next one."""
        with suppress(BlockingIOError):  # nobody has read for 2 ** 64 calls: it is set
            os.eventfd_write(self.fd, 1)

    def clear(self) -> None:
        """Take back what was set."""
        with suppress(BlockingIOError):
            os.eventfd_read(self.fd)

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self.fd)
