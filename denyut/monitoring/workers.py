"""The workers whose heartbeat is alive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["Worker", "live_workers"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """One worker node. ``late_s`` is by how many seconds it is late; less than 0 if it is in time."""

    owner: str
    name: str
    running: int
    late_s: float


def live_workers(pulse: Denyut, client: Any) -> list[Worker]:
    """Return the workers that beat, in two round trips.

    Raises:
        redis.exceptions.RedisError: if they cannot be read.
    """
    pipe = client.pipeline(transaction=False)
    (seconds, micros), owners = pipe.time().zrange(pulse.keys.workers(), 0, -1).execute()
    now_us = int(seconds) * 1_000_000 + int(micros)
    names = [owner.decode() for owner in owners]
    for name in names:
        pipe.hmget(pulse.keys.worker(name), "last_heartbeat", "beat_lag_ms", "name", "running")
    interval = pulse.settings.beat_interval
    return [
        Worker(
            owner=owner,
            name=(name or b"").decode("utf-8", "replace"),
            running=int(running or 0),
            # Late is the last beat that came, or the next one that has not.
            late_s=max(float(lag or 0) / 1e3, (now_us - int(beat)) / 1e6 - interval),
        )
        for owner, (beat, lag, name, running) in zip(names, pipe.execute(), strict=True)
        if beat  # a worker that is gone stays in the list for a while, but its Hash does not
    ]
