"""Renewing the locks of a process that is no worker: a thread of it, while it holds any.

A thread is what such a process has. Code that holds the GIL for longer than the TTL of a lock starves it,
and so does a greenlet that does not give way; then the lock lapses, and :meth:`Lock.check` says so. A job
has a heartbeat outside of it instead (denyut.signals.locks).
"""

from __future__ import annotations

import logging
import os
from contextlib import closing
from threading import Condition, Thread
from time import monotonic
from typing import TYPE_CHECKING, Any

from redis.exceptions import RedisError

from denyut.scripts import run_all
from denyut.tasks.locks.steps import renew_calls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from denyut.config import Settings
    from denyut.keys import Keys
    from denyut.store import Store
    from denyut.tasks.locks.holds import OwnHold
    from denyut.tasks.locks.steps import Held

__all__ = ["Keeper", "tell"]

logger = logging.getLogger(__name__)

#: The shortest wait for a reply (s).
_SHORTEST_WAIT = 0.2
#: Pause before a failed round is tried again (s).
_AGAIN = 0.1


class Keeper:
    """Renews what it is given every third of ``denyut_lease_ttl``; its thread ends when that is nothing.

    Args:
        settings: of the app.
        keys: of the app.
        store: where its Redis client comes from.
    """

    def __init__(self, settings: Settings, keys: Keys, store: Store) -> None:
        self._settings, self._keys, self._store = settings, keys, store
        self._thread: Thread | None = None
        self._holds: set[OwnHold] = set()
        self._changed = Condition()
        self._pid = os.getpid()

    def keep(self, hold: OwnHold) -> None:
        """Renew ``hold`` from now on."""
        if self._pid != os.getpid():  # a fork has neither the thread nor the locks of its parent
            self._thread, self._holds, self._changed = None, set(), Condition()
            self._pid = os.getpid()
        with self._changed:
            self._holds.add(hold)
            if self._thread is None or not self._thread.is_alive():
                self._thread = Thread(target=self._run, name="denyut-locks", daemon=True)
                self._thread.start()

    def drop(self, hold: OwnHold) -> None:
        """Renew ``hold`` no more. May be called twice."""
        if self._pid == os.getpid():
            with self._changed:
                self._holds.discard(hold)

    def stop(self) -> None:
        """End the thread; what it has kept lapses."""
        if self._pid != os.getpid():
            return
        with self._changed:
            self._holds.clear()
            thread = self._thread
            self._changed.notify_all()
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        interval = self._settings.beat_interval
        timeout = min(self._settings.redis_timeout, max(interval, _SHORTEST_WAIT))
        pause = interval
        with closing(self._store.fresh(retries=0, timeout=timeout)) as client:
            while holds := self._next(pause):
                try:
                    self._renew(client, holds)
                    pause = interval
                except (RedisError, OSError) as exc:
                    logger.warning("locks: %s: %s; trying again", type(exc).__name__, exc)
                    pause = _AGAIN

    def _next(self, pause: float) -> list[OwnHold]:
        """Wait until it is time to renew; return what is to be renewed: if that is nothing, it is over."""
        with self._changed:
            self._changed.wait(pause)
            if not self._holds:
                self._thread = None
            return list(self._holds)

    def _renew(self, client: Any, holds: list[OwnHold]) -> None:
        by_token = {hold.held.token: hold for hold in holds}
        held = [hold.held for hold in holds]
        calls = renew_calls(self._keys, held, lease_ttl=self._settings.lease_ttl, now=monotonic())
        sent = monotonic()
        replies = run_all(client, [call for _, call in calls])
        for (chunk, _), reply in zip(calls, replies, strict=True):
            for each, word in tell(chunk, reply):
                by_token[each.token].answer(each.fence, None if word == "LOST" else sent)


def tell(chunk: Sequence[Held], reply: Sequence[bytes]) -> list[tuple[Held, str]]:
    """Return the locks that are renewed (``RENEWED``) or ``LOST``; log those that Redis could not renew."""
    told = []
    for held, raw in zip(chunk, reply, strict=True):
        word = raw.decode("utf-8", "replace")
        if word in ("RENEWED", "LOST"):
            told.append((held, word))
        elif word != "FREED":
            logger.error("lock %r: Redis refused to renew it: %s", held.name, word)
        if word == "LOST":
            logger.warning("lock %r (fence %d) was lost: another may have it", held.name, held.fence)
    return told
