"""Going on trying while Redis cannot be reached: a step that decides about a job is not given up lightly."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, TypeVar

from redis.exceptions import BusyLoadingError, ReadOnlyError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["PASSING", "patiently"]

T = TypeVar("T")

#: What passes by itself: no connection, no reply, a server that restarts or fails over.
PASSING = (RedisConnectionError, RedisTimeoutError, BusyLoadingError, ReadOnlyError)

#: How long a worker goes on trying (s). Longer than a restart or a failover takes.
PATIENCE = 60.0


def patiently(step: Callable[[], T], patience: float = PATIENCE) -> T:
    """Return ``step()``, trying again while Redis cannot be reached, for ``patience`` seconds.

    The client waits and tries by itself in each step, so this is no busy loop. Only for steps that
    may be sent twice: their reply may have been lost.

    Raises:
        redis.exceptions.RedisError: when the patience is over, or at once if it is another trouble.
    """
    deadline = monotonic() + patience
    while True:
        try:
            return step()
        except PASSING:
            if monotonic() > deadline:
                raise
