"""A status in words, for the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from denyut.monitoring.text import age, clean
from denyut.states import State

if TYPE_CHECKING:
    from denyut.monitoring.status import Status
    from denyut.monitoring.telemetry import Telemetry
    from denyut.tasks.record import JobRecord

__all__ = ["facts", "news", "summary"]

_WORTH_TELLING_MS = 100


def summary(status: Status) -> tuple[Any, ...]:
    """Return the row of a list: id, task, verdict, attempt, progress, stage, age, due."""
    record = status.record
    assert record is not None
    when = age(record.queued_at, status.now_us)
    due = age(record.due, status.now_us) if record.state in (State.SCHEDULED, State.RETRYING) else ""
    return (
        status.id,
        record.task,
        status.verdict,
        record.attempt,
        _progress(status),
        status.stage,
        when,
        due,
    )


def news(status: Status) -> str:
    """Return one line for somebody who watches."""
    parts = [f"{status.verdict:<10}", f"attempt {status.attempt}", _progress(status), status.stage]
    if status.error and status.terminal:
        parts.append(": ".join(status.error))
    return clean("  ".join(part for part in parts if part))


def facts(status: Status) -> list[tuple[str, Any]]:
    """Return everything that is worth telling of a job, as names and values."""
    assert status.record is not None
    found = [*_identity(status, status.record), *_life(status, status.record), *_lease(status)]
    if status.telemetry is not None:
        found += _beat(status, status.telemetry)
    return [(name, value) for name, value in found if value not in (None, "", 0)]


def _identity(status: Status, record: JobRecord) -> list[tuple[str, Any]]:
    return [
        ("id", status.id),
        ("task", record.task),
        ("verdict", status.verdict),
        ("state", record.state),
        ("queue", record.queue),
        ("key", record.key),
        ("runs after" if record.after else "follows", record.follows),
        ("conflicts with", record.conflict),
        ("gave up", record.reason),
        ("retry of", record.retry_of),
        ("retried as", record.retried_as),
    ]


def _life(status: Status, record: JobRecord) -> list[tuple[str, Any]]:
    now = status.now_us
    recovered = record.recovered_us
    return [
        ("attempt", record.attempt),
        ("failures", record.failures),
        ("crashes", record.crashes),
        ("enqueued", age(record.queued_at, now)),
        ("due", age(record.due, now)),
        ("started", age(record.started_at, now)),
        ("crashed", age(record.crashed_at, now)),
        ("recovered", "" if recovered is None else f"{recovered / 1e6:.2f} s after its last sign of life"),
        ("finished", age(record.finished_at, now)),
        ("told to stop", record.cancel if not status.terminal else None),
        ("error", ": ".join(record.error) if record.error else None),
    ]


def _lease(status: Status) -> list[tuple[str, Any]]:
    record = status.record
    assert record is not None
    return [
        ("worker", record.owner and record.owner.partition("|")[0]),
        ("pid", record.pid),
        ("lease", f"{status.lease_ttl_ms / 1e3:.1f} s left" if status.lease else None),
    ]


def _beat(status: Status, told: Telemetry) -> list[tuple[str, Any]]:
    now = status.now_us
    found: list[tuple[str, Any]] = [("progress", _progress(status)), ("stage", told.stage)]
    if not status.terminal:
        late = f", {told.beat_lag_ms / 1e3:.1f} s late" if told.beat_lag_ms >= _WORTH_TELLING_MS else ""
        found.append(("last beat", age(told.last_heartbeat, now) + late))
        found.append(("last progress", age(told.last_progress, now)))
        found.append(("last activity", age(told.last_active, now)))
    if told.rss_mb is not None:
        found.append(("memory", f"{told.rss_mb:.0f} MiB, at most {told.rss_peak_mb or told.rss_mb:.0f}"))
    if told.cpu_s is not None:
        found.append(("cpu", f"{told.cpu_s:.1f} s of its process"))
    return found


def _progress(status: Status) -> str:
    told = status.telemetry
    # What a completed job did after its last beat is not in its telemetry: half-done would be a lie.
    if told is None or told.done is None or status.state == State.COMPLETED:
        return ""
    total = f" of {told.total:g}" if told.total is not None else ""
    share = f" ({told.progress:.0%})" if told.progress is not None else ""
    return f"{told.done:g}{total} {told.unit}".rstrip() + share
