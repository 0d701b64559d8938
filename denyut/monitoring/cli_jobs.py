"""``celery -A proj denyut jobs show | list | watch``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from denyut.errors import UnknownJob
from denyut.monitoring.cli_base import age, as_json, command, print_json, table

if TYPE_CHECKING:
    from denyut.app import Denyut
    from denyut.monitoring.status import Status

__all__ = ["jobs"]


@click.group()
def jobs() -> None:
    """Look at jobs."""


@jobs.command()
@click.argument("job_id")
@as_json
@command
def show(pulse: Denyut, job_id: str, as_json: bool) -> None:
    """Show one job: its verdict, its record and its newest beat."""
    status = pulse.jobs.get(job_id, fresh=True)
    if status.record is None:
        raise UnknownJob(f"no job has the id {job_id!r}, or its retention is over")
    if as_json:
        print_json(status.as_dict())
        return
    for name, value in _facts(status):
        click.echo(f"{name:<12}{value}")


@jobs.command(name="list")
@click.option("--state", help="Only jobs in this state, such as RUNNING.")
@click.option("--task", help="Only jobs of this task.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
@click.option("--cursor", help="Go on where the last page ended.")
@as_json
@command
def list_(pulse: Denyut, state: str, task: str, limit: int, cursor: str, as_json: bool) -> None:
    """List live jobs, and those that have ended within their retention; newest first."""
    page = pulse.jobs.list(state=state, task=task, limit=limit, cursor=cursor)
    if as_json:
        print_json({"jobs": [status.as_dict() for status in page.jobs], "cursor": page.cursor})
        return
    table(("ID", "TASK", "VERDICT", "PROGRESS", "STAGE", "ATTEMPT", "ENQUEUED"), [_row(s) for s in page.jobs])
    if page.cursor:
        click.echo(f"more: --cursor {page.cursor}")


@jobs.command()
@click.argument("job_id")
@click.option("--timeout", type=float, help="Stop after so many seconds.")
@as_json
@command
def watch(pulse: Denyut, job_id: str, timeout: float | None, as_json: bool) -> None:
    """Follow one job to its end: a line for each change."""
    for status in pulse.jobs.watch(job_id, timeout=timeout, every=0.5):
        if as_json:
            click.echo(json.dumps(status.as_dict(), default=str))
        else:
            click.echo("  ".join(str(cell) for cell in _row(status)[2:6]))


def _row(status: Status) -> list[Any]:
    record, telemetry = status.record, status.telemetry
    assert record is not None
    stage = telemetry.stage if telemetry else ""
    queued = age(record.queued_at, status.now_us)
    return [status.id, record.task, status.verdict, _progress(status), stage or "-", record.attempt, queued]


def _progress(status: Status) -> str:
    telemetry = status.telemetry
    if telemetry is None or telemetry.done is None:
        return "-"
    share = f" ({telemetry.progress:.0%})" if telemetry.progress is not None else ""
    total = f"/{telemetry.total:g}" if telemetry.total is not None else ""
    return f"{telemetry.done:g}{total}{share} {telemetry.unit}".strip()


def _facts(status: Status) -> list[tuple[str, Any]]:
    record, telemetry, now = status.record, status.telemetry, status.now_us
    assert record is not None
    facts: list[tuple[str, Any]] = [("id", status.id), ("verdict", status.verdict), ("task", record.task)]
    facts += [("state", record.state), ("queue", record.queue), ("key", record.key or "-")]
    facts += [("attempt", record.attempt), ("failures", record.failures), ("crashes", record.crashes)]
    facts += [("fence", record.fence), ("owner", record.owner or "-")]
    facts += [("enqueued", age(record.queued_at, now)), ("started", age(record.started_at, now))]
    facts += [("finished", age(record.finished_at, now))]
    if status.lease:
        facts.append(("lease", f"{status.lease_ttl_ms / 1000:.1f} s left"))
    if telemetry is not None:
        facts += [("progress", _progress(status)), ("stage", telemetry.stage or "-")]
        facts += [("last beat", f"{age(telemetry.last_heartbeat, now)}, {telemetry.beat_lag_ms} ms late")]
        facts += [("memory", f"{telemetry.rss_mb or 0:.0f} MiB (peak {telemetry.rss_peak_mb or 0:.0f})")]
        facts += [("cpu", f"{telemetry.cpu_s or 0:.2f} s")]
    if record.recovered_us is not None:
        facts.append(("recovered", f"{record.recovered_us / 1e6:.2f} s after the last beat"))
    if record.error:
        facts.append(("error", ": ".join(record.error)))
    return facts
