"""The connection to Redis: one client per process, made when first used, never shared across a fork."""

from __future__ import annotations

import os
from threading import Lock
from typing import TYPE_CHECKING, Any

from redis.backoff import ExponentialBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.retry import Retry

from denyut.quick import QuickRedis
from denyut.urls import for_redis

if TYPE_CHECKING:
    from collections.abc import Callable

    from redis import Redis

__all__ = ["Store", "connect"]


#: There is one for each thread that asks at once: no more than that, and none may be refused. (redis-py 8
#: allows 100 unless it is told.)
_MOST_CONNECTIONS = 1_000_000


def connect(url: str, *, timeout: float, retries: int = 3) -> Redis:
    """Return a client for ``url`` that retries a failed command ``retries`` times, with backoff.

    Every script of this package may be sent twice (its reply may be lost), so retrying is safe.

    Args:
        url: ``redis://``, ``rediss://``, ``unix://``, or their names with valkey or in Celery.
        timeout: seconds to wait for a connection, and for a reply.
        retries: further tries after the first; 0 for none.
    """
    url = for_redis(url)
    # A unix socket knows no keepalive, and redis-py refuses the word there.
    keepalive = {} if url.startswith("unix://") else {"socket_keepalive": True}
    client: Redis = QuickRedis.from_url(
        url,
        socket_timeout=timeout,
        socket_connect_timeout=timeout,
        max_connections=_MOST_CONNECTIONS,
        **keepalive,
        retry=Retry(ExponentialBackoff(cap=1.0, base=0.05), retries),
        retry_on_error=[RedisConnectionError, RedisTimeoutError],
    )
    return client


class Store:
    """Hands out this process's client.

    Args:
        url: a function that returns the URL; called at first use, so that an embedded server is
            started only when it is needed.
        timeout: seconds to wait for one reply.
    """

    def __init__(self, url: Callable[[], str], *, timeout: float) -> None:
        self._url = url
        self._timeout = timeout
        self._lock = Lock()
        self._pid = 0
        self._client: Redis | None = None

    @property
    def client(self) -> Any:
        """This process's Redis client (typed Any: its stubs mix the sync and async replies)."""
        if self._pid != os.getpid():
            self._renew()
        return self._client

    @property
    def url(self) -> str:
        """The URL, starting the embedded server if there is no other."""
        return self._url()

    def fresh(self, *, retries: int = 3, timeout: float | None = None) -> Any:
        """Return a client of its own, for a thread that must not share one.

        Args:
            retries: further tries of a command that failed.
            timeout: seconds to wait for one reply; None: as the store's.
        """
        return connect(self._url(), timeout=timeout or self._timeout, retries=retries)

    def now_us(self) -> int:
        """Return the time of Redis, in microseconds: the only clock that times are compared with."""
        seconds, micros = self.client.time()
        return int(seconds) * 1_000_000 + int(micros)

    def close(self) -> None:
        """Close this process's client; the next use opens another."""
        if self._client is not None and self._pid == os.getpid():
            self._client.close()
        self._client, self._pid = None, 0

    def _renew(self) -> None:
        if self._lock.acquire(timeout=self._timeout):
            try:
                if self._pid != os.getpid():
                    # The parent's sockets are left alone: closing them here would shut its streams.
                    self._client = self.fresh()
                    self._pid = os.getpid()
            finally:
                self._lock.release()
        else:  # the lock was held by another thread at the moment of the fork
            self._lock = Lock()
            self._renew()
