"""The doctor: a list of checks, each a small function that says what it found and what to do."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from redis.exceptions import RedisError, ResponseError

from denyut.monitoring.check import Check, Level
from denyut.monitoring.check_jobs import check_audit, check_leases, check_workers
from denyut.monitoring.check_layout import check_partitions, check_shards
from denyut.monitoring.check_locks import check_locks
from denyut.monitoring.check_outbox import check_outbox
from denyut.monitoring.check_queues import check_queues
from denyut.monitoring.check_server import check_eviction, check_persistence, check_redis
from denyut.monitoring.check_store import check_store
from denyut.monitoring.check_tables import check_tables

if TYPE_CHECKING:
    from collections.abc import Callable

    from denyut.app import Denyut

__all__ = ["CHECKS", "examine"]

#: All checks, in the order in which they are made.
CHECKS: dict[str, Callable[[Denyut, Any], Check]] = {
    "redis": check_redis,
    "eviction": check_eviction,
    "persistence": check_persistence,
    "partitions": check_partitions,
    "shards": check_shards,
    "workers": check_workers,
    "leases": check_leases,
    "queues": check_queues,
    "audit": check_audit,
    "tables": check_tables,
    "store": check_store,
    "outbox": check_outbox,
    "locks": check_locks,
}


def examine(pulse: Denyut) -> list[Check]:
    """Make all checks and return what they found; without Redis, that is all there is to say.

    Raises:
        EmbeddedUnavailable: if there is no Redis to ask.
    """
    found: list[Check] = []
    with closing(pulse.store.fresh(retries=1)) as client:
        for name, check in CHECKS.items():
            found.append(_make(name, check, pulse, client))
            if name == "redis" and found[0].level == Level.FAIL:
                break
    return found


def _make(name: str, check: Callable[[Denyut, Any], Check], pulse: Denyut, client: Any) -> Check:
    try:
        return check(pulse, client)
    except ResponseError as exc:  # an ACL, or a managed server, that forbids a command
        return Check.warn(name, f"Redis refuses to say: {exc}", "check it where Redis is administered")
    except (RedisError, OSError) as exc:
        return Check.fail(name, f"Redis stopped to answer: {exc}", "is it overloaded, or restarting?")
