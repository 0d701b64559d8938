"""Telling the relays that a transaction with jobs has committed, so that they look at once.

A hint and no more: what is not told is found by the next look of a relay. So it costs the producer one
round trip after its commit, for a quarter of a second at most, and raises nothing; where Redis does not
answer, it is left alone for a while.
"""

from __future__ import annotations

import logging
import os
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any

from redis.exceptions import RedisError

from denyut.errors import DenyutError
from denyut.tasks.outbox.places import places

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["Poker"]

logger = logging.getLogger(__name__)

#: Longest wait for Redis (s), and how long it is left alone when it did not answer (s).
_LONGEST = 0.25
_LEFT_ALONE = 5.0
#: How long a hint that no relay has taken is kept (ms).
_KEPT = 60_000


class Poker:
    """Tells the relays of one app, from any thread."""

    def __init__(self, pulse: Denyut) -> None:
        self._pulse = pulse
        self._lock = Lock()
        self._client: Any = None
        self._pid = 0
        self._not_before = 0.0

    def poke(self) -> None:
        """Tell the relays. Raises nothing."""
        if monotonic() < self._not_before:
            return
        try:
            pipe = self._own_client().pipeline(transaction=False)
            for place in places(self._pulse):
                key = self._pulse.keys.relay_poke(place.name)
                pipe.lpush(key, "1")
                pipe.ltrim(key, 0, 0)
                pipe.pexpire(key, _KEPT)
            pipe.execute()
        except (RedisError, OSError, DenyutError) as exc:
            # The transaction has committed, and its jobs will be found: nothing is lost but half a second.
            self._not_before = monotonic() + _LEFT_ALONE
            logger.debug("outbox: the relays could not be told: %s", exc)

    def close(self) -> None:
        """Close this process's connection; the next use opens another."""
        if self._client is not None and self._pid == os.getpid():
            self._client.close()
        self._client = None

    def _own_client(self) -> Any:
        if self._client is None or self._pid != os.getpid():
            if not self._lock.acquire(timeout=_LONGEST):
                self._lock = Lock()  # it was held by another thread at the moment of the fork
                return self._own_client()
            try:
                if self._client is None or self._pid != os.getpid():
                    # After a fork the sockets are the parent's, and are left alone.
                    self._client = self._pulse.store.fresh(retries=0, timeout=_LONGEST)
                    self._pid = os.getpid()
            finally:
                self._lock.release()
        return self._client
