"""The telemetry Hash of a running job as the rest of the code sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Telemetry"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    """The newest beat of one attempt. Times are microseconds of Redis' clock; None: not told.

    ``progress`` is ``done / total``; ``rss_mb`` and ``rss_peak_mb`` are MiB of the pool process;
    ``cpu_s`` its CPU seconds; ``beat_lag_ms`` how late the beat was.
    """

    status: str
    fence: int
    attempt: int
    version: int
    last_heartbeat: int
    last_progress: int
    last_active: int
    done: float | None = None
    total: float | None = None
    progress: float | None = None
    unit: str = ""
    stage: str = ""
    rss_mb: float | None = None
    rss_peak_mb: float | None = None
    cpu_s: float | None = None
    beat_lag_ms: int = 0

    @classmethod
    def from_redis(cls, raw: Mapping[str, str]) -> Telemetry | None:
        """Build it from the Hash; None if no beat has written it yet."""
        if "last_heartbeat" not in raw:
            return None

        def number(name: str) -> float | None:
            return float(raw[name]) if raw.get(name) else None

        beat = int(raw["last_heartbeat"])
        return cls(
            status=raw.get("status", ""),
            fence=int(raw.get("fence") or 0),
            attempt=int(raw.get("attempt") or 0),
            version=int(raw.get("version") or 0),
            last_heartbeat=beat,
            last_progress=int(raw.get("last_progress") or beat),
            last_active=int(raw.get("last_active") or beat),
            done=number("done"),
            total=number("total"),
            progress=number("progress"),
            unit=raw.get("unit", ""),
            stage=raw.get("stage", ""),
            rss_mb=number("rss_mb"),
            rss_peak_mb=number("rss_peak_mb"),
            cpu_s=number("cpu_s"),
            beat_lag_ms=int(float(raw.get("beat_lag_ms") or 0)),
        )
