"""A cache of statuses in this process: many pollers of one job make one read."""

from __future__ import annotations

import os
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

    A read that fails does so for all who wait for it, and for nobody else.

    Args:
        read: reads a status.
        keep: seconds that a status is good for.
        most: statuses kept at most; the least recently read goes first.
    """

    def __init__(self, read: Callable[[str], Status], *, keep: float = 0.5, most: int = 10_000) -> None:
        self._read, self._keep, self._most = read, keep, most
        self._forget()

    def get(self, job_id: str, *, fresh: bool = False) -> Status:
        """Return the status of ``job_id``, read at most ``keep`` seconds ago, or now if ``fresh``.

        Raises:
            Exception: what ``read`` raised.
        """
        entry = self._entry(job_id)
        asked = monotonic()
        with entry.lock:
            if not entry.answers(asked, not_before=asked if fresh else asked - self._keep):
                entry.fill(self._read, job_id)
            if isinstance(entry.outcome, Exception):
                raise entry.outcome.with_traceback(None)
            assert entry.outcome is not None
            return entry.outcome

    def _entry(self, job_id: str) -> _Entry:
        if self._pid != os.getpid():
            self._forget()  # after a fork: another thread of the parent may have held a lock
        with self._lock:
            entry = self._entries.setdefault(job_id, _Entry())
            self._entries.move_to_end(job_id)
            while len(self._entries) > self._most:
                self._entries.popitem(last=False)
        return entry

    def _forget(self) -> None:
        self._lock = Lock()
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._pid = os.getpid()


class _Entry:
    """The last read of one job. All but ``lock`` is for whoever holds it."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.outcome: Status | Exception | None = None
        self._begun = self._ended = float("-inf")

    def answers(self, asked: float, *, not_before: float) -> bool:
        """Whether the last read answers somebody who asked at ``asked``."""
        if isinstance(self.outcome, Exception):
            return self._ended >= asked
        return self.outcome is not None and self._begun >= not_before

    def fill(self, read: Callable[[str], Status], job_id: str) -> None:
        begun = monotonic()
        try:
            self.outcome = read(job_id)
        except Exception as exc:  # noqa: BLE001 - raised by every reader that waits for it
            self.outcome = exc
        self._begun, self._ended = begun, monotonic()
