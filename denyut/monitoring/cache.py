"""A cache of statuses in this process: many pollers of one job make one read."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from denyut.monitoring.status import Status

__all__ = ["StatusCache"]


class StatusCache:
    """Keeps each status for a moment; concurrent readers of one job wait for one read.

    Args:
        read: reads a status.
        keep: seconds that a status is good for.
        most: statuses kept at most; the least recently read goes first.
    """

    def __init__(self, read: Callable[[str], Status], *, keep: float = 0.5, most: int = 10_000) -> None:
        self._read, self._keep, self._most = read, keep, most
        self._lock = Lock()
        self._entries: OrderedDict[str, _Entry] = OrderedDict()

    def get(self, job_id: str, *, fresh: bool = False) -> Status:
        """Return the status of ``job_id``, read at most ``keep`` seconds ago, or now if ``fresh``."""
        with self._lock:
            entry = self._entries.setdefault(job_id, _Entry())
            self._entries.move_to_end(job_id)
            while len(self._entries) > self._most:
                self._entries.popitem(last=False)
        asked = monotonic()
        with entry.lock:
            # Whoever waited here while another read has its answer: that read began after it asked.
            good = entry.begun >= asked if fresh else entry.begun >= asked - self._keep
            if entry.status is None or not good:
                begun = monotonic()
                entry.status = self._read(job_id)
                entry.begun = begun
            return entry.status


class _Entry:
    def __init__(self) -> None:
        self.lock = Lock()
        self.begun = float("-inf")
        self.status: Status | None = None
