"""Statuses of jobs as the demo reads them."""

from __future__ import annotations

from typing import Any

from denyut.monitoring.status import Status
from denyut.monitoring.telemetry import Telemetry
from denyut.states import State, Verdict
from denyut.tasks.record import JobRecord


def job(state: State, *, progress: float | None = None, stage: str = "", **record: Any) -> Status:
    """Return the status of a job in ``state``, with these fields of its record and telemetry."""
    numbers = dict.fromkeys(("generation", "attempt", "failures", "crashes", "fence", "version"), 0)
    beat = {"fence": 0, "attempt": 1, "version": 1, "last_heartbeat": 1, "last_progress": 1, "last_active": 1}
    telemetry = Telemetry(status="RUNNING", progress=progress, stage=stage, rss_mb=64.0, **beat)
    return Status(
        id="j",
        verdict=Verdict(state.lower()),
        record=JobRecord(id="j", task="t", queue="q", state=state, **{**numbers, **record}),
        telemetry=None if progress is None else telemetry,
        lease=None,
        lease_ttl_ms=0,
        alive=True,
        marked_us=1,
        now_us=500_001,
        poll_after_ms=500,
    )
