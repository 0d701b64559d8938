"""The messages that this worker has received and not started: the heartbeat tells Redis of them.

A queued job whose message sits in a worker's prefetch window is not lost. As long as the worker
beats, its entry in the index ``held`` stays ahead of the clock, and nobody publishes it again.
"""

from __future__ import annotations

from collections import deque
from threading import Lock
from time import monotonic
from typing import Protocol

__all__ = ["Held", "InHand", "held"]


class InHand(Protocol):
    """What the heartbeat asks for the messages in hand."""

    def snapshot_older_than(self, seconds: float) -> list[str]:
        """Return the ids that have been in hand for ``seconds`` or longer."""


class Held:
    """The job ids of the messages in hand; safe to use from any thread.

    One id may be held more than once: a redelivered message is a copy of the first.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._since: dict[str, float] = {}
        self._copies: dict[str, int] = {}
        # A discard may come from a garbage collection, which may come while this thread has the
        # lock: so it takes none.
        self._gone: deque[str] = deque()

    def add(self, job_id: str) -> None:
        """Note that a message of ``job_id`` was received."""
        with self._lock:
            self._settle()
            self._since.setdefault(job_id, monotonic())
            self._copies[job_id] = self._copies.get(job_id, 0) + 1

    def discard(self, job_id: str) -> None:
        """Note that one message of ``job_id`` is out of hand. Never blocks."""
        self._gone.append(job_id)

    def snapshot_older_than(self, seconds: float) -> list[str]:
        """Return the ids that have been in hand for ``seconds`` or longer."""
        latest = monotonic() - seconds
        with self._lock:
            self._settle()
            return [job_id for job_id, since in self._since.items() if since <= latest]

    def __len__(self) -> int:
        with self._lock:
            self._settle()
            return len(self._since)

    def _settle(self) -> None:
        while self._gone:
            job_id = self._gone.popleft()
            left = self._copies.get(job_id, 0) - 1
            if left > 0:
                self._copies[job_id] = left
            else:
                self._copies.pop(job_id, None)
                self._since.pop(job_id, None)


_held = Held()


def held() -> Held:
    """Return what this process holds."""
    return _held
