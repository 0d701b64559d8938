"""One address, two spellings: redis-py and Celery (kombu) write some Redis addresses differently."""

from __future__ import annotations

import re

__all__ = ["for_celery", "for_redis"]

_TO_REDIS = {"valkey://": "redis://", "valkeys://": "rediss://", "redis+socket://": "unix://"}
_TO_CELERY = {"valkey://": "redis://", "valkeys://": "rediss://", "unix://": "redis+socket://"}
_CELERY_DATABASE = re.compile(r"(?<=[?&])virtual_host=/?")
_REDIS_DATABASE = re.compile(r"(?<=[?&])db=")


def for_redis(url: str) -> str:
    """Return ``url`` as redis-py spells it: ``redis://``, ``rediss://`` or ``unix://``."""
    return _CELERY_DATABASE.sub("db=", _with_scheme(url, _TO_REDIS))


def for_celery(url: str) -> str:
    """Return ``url`` as Celery spells it: ``redis://``, ``rediss://`` or ``redis+socket://``."""
    spelled = _with_scheme(url, _TO_CELERY)
    # On a socket the database is a parameter, because the path is the socket's.
    return _REDIS_DATABASE.sub("virtual_host=", spelled) if spelled.startswith("redis+socket") else spelled


def _with_scheme(url: str, schemes: dict[str, str]) -> str:
    for scheme, other in schemes.items():
        if url.startswith(scheme):
            return other + url.removeprefix(scheme)
    return url
