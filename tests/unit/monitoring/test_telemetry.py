"""Telemetry as the Hash has it, and as readers get it."""

from __future__ import annotations

from denyut.monitoring.telemetry import Telemetry

BARE = {"status": "RUNNING", "fence": "7", "attempt": "2", "version": "9", "last_heartbeat": "1000"}


def test_before_the_first_beat_there_is_none():
    assert Telemetry.from_redis({}) is None
    assert Telemetry.from_redis({"status": "COMPLETED"}) is None, "finish() marks a Hash that no beat wrote"


def test_what_the_task_has_not_told_is_none_and_not_zero():
    found = Telemetry.from_redis({**BARE, "done": "", "total": "", "progress": "", "rss_mb": ""})
    assert (found.done, found.total, found.progress, found.rss_mb, found.stage) == (
        None,
        None,
        None,
        None,
        "",
    )


def test_a_job_is_as_active_as_its_first_beat_until_told_otherwise():
    found = Telemetry.from_redis(BARE)
    assert (found.last_progress, found.last_active) == (1000, 1000)


def test_everything_that_a_beat_writes_is_read():
    told = {"done": "3", "total": "4", "progress": "0.75", "unit": "rows", "stage": "LOADING"}
    used = {"rss_mb": "12.50", "rss_peak_mb": "20.00", "cpu_s": "1.25", "beat_lag_ms": "15"}
    times = {"last_progress": "900", "last_active": "950"}
    found = Telemetry.from_redis({**BARE, **told, **used, **times})
    assert (found.fence, found.attempt, found.version, found.status) == (7, 2, 9, "RUNNING")
    assert (found.done, found.total, found.progress, found.unit, found.stage) == (
        3,
        4,
        0.75,
        "rows",
        "LOADING",
    )
    assert (found.rss_mb, found.rss_peak_mb, found.cpu_s, found.beat_lag_ms) == (12.5, 20, 1.25, 15)
    assert (found.last_heartbeat, found.last_progress, found.last_active) == (1000, 900, 950)
