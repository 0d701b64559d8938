"""Waiting for a lock without asking for it again and again.

Whoever is refused waits in a BLPOP on the wake list of the lock, on a connection of his own. Redis serves
those who wait in the order in which they came. A release puts one baton there: it wakes one, and keeps the
lock for him. Now and then he looks whether the holder has died; the wait goes on meanwhile, so he keeps his
turn.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from redis.exceptions import RedisError

if TYPE_CHECKING:
    from denyut.store import Store
    from denyut.tasks.run import JobRun

__all__ = ["Waiting"]

#: How often a job that waits looks whether it was told to stop, where no signal tells it (s).
_HEED_EVERY = 1.0
#: Pause when the connection has failed (s).
_AGAIN = 0.25


class Waiting:
    """One wait for one lock, by one thread.

    Args:
        store: where the connection comes from.
        wake: the wake list.
        run: the job that waits; None if it is none.
    """

    def __init__(self, store: Store, wake: str, run: JobRun | None) -> None:
        self._store, self._wake, self._run = store, wake, run
        self._client: Any = None
        self._connection: Any = None
        self._lined_up = False  # a BLPOP is on, or may be

    def baton(self, pause: float, left: float) -> str:
        """Wait at most ``pause`` seconds and return the baton, '' if none came.

        Args:
            pause: until when to look at the lock again.
            left: of the whole wait, in seconds; may be infinite.

        Raises:
            JobInterrupt: the job was told to stop.
        """
        try:
            self._line_up(left)
            if not self._is_there(pause):
                return ""
            reply = self._connection.read_response()
        except (RedisError, OSError):
            self.close()  # the next one connects again
            threading.Event().wait(min(_AGAIN, max(pause, 0.0)))
            return ""
        self._lined_up = False
        return reply[1].decode() if reply else ""

    def close(self) -> None:
        """Wait no more: the server forgets whoever has gone."""
        if self._connection is None:
            return
        if self._lined_up:
            self._connection.disconnect()
            self._lined_up = False
        self._client.give_back(self._connection)
        self._connection = None

    def _line_up(self, left: float) -> None:
        if self._lined_up:
            return
        if self._connection is None:
            self._client = self._store.client
            self._connection = self._client.borrow()
        # 0 is for ever. The server ends a wait that has an end, so that a baton is not given to nobody.
        seconds = 0.0 if left == float("inf") else max(left, 0.001)
        self._lined_up = True
        self._connection.send_command("BLPOP", self._wake, f"{seconds:.3f}")

    def _is_there(self, pause: float) -> bool:
        left = pause
        while True:
            step = left if self._run is None else min(left, _HEED_EVERY)
            if self._connection.can_read(timeout=max(step, 0.0)):
                return True
            if self._run is not None:
                self._run.heed()
            left -= step
            if left <= 0:
                return False
