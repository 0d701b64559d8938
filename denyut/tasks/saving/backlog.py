"""What the job store has not seen, and how its writing goes: read from Redis, so that anybody can ask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["Backlog", "read_backlog"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """How the job store is doing. ``error`` is the last one, without the password; empty if it is up.

    ``refused`` names the jobs that the store does not take, with why. ``audit`` is how many actions by hand
    it has not seen.
    """

    jobs: int
    oldest_s: float
    refused: dict[str, str]
    written: int
    writes: int
    failures: int
    error: str
    error_age_s: float
    audit: int = 0


def read_backlog(pulse: Denyut, client: Any) -> Backlog:
    """Read what the job store has not seen, in one round trip.

    Raises:
        redis.exceptions.RedisError: it cannot be asked.
    """
    pipe = client.pipeline(transaction=False)
    pipe.time()
    pipe.hgetall(pulse.keys.saving())
    pipe.hlen(pulse.keys.audit())
    for part in pulse.keys.all_partitions():
        pipe.zcard(part.outbox)
        pipe.zrange(part.outbox, 0, 0, withscores=True)
        pipe.hgetall(part.refused)
    (seconds, micros), told, audit, *rest = pipe.execute()
    now = int(seconds) * 1_000_000 + int(micros)
    firsts = [page[0][1] for page in rest[1::3] if page]
    known = {name.decode(): value.decode("utf-8", "replace") for name, value in told.items()}
    refused = {i.decode("utf-8", "replace"): why.decode() for each in rest[2::3] for i, why in each.items()}
    return Backlog(
        jobs=sum(rest[0::3]),
        oldest_s=max(now - min(firsts), 0) / 1e6 if firsts else 0.0,
        refused=refused,
        written=int(known.get("jobs", 0)),
        writes=int(known.get("writes", 0)),
        failures=int(known.get("failures", 0)),
        error=known.get("error", ""),
        error_age_s=max(now - int(known.get("error_at", now)), 0) / 1e6,
        audit=audit,
    )
