"""``celery -A proj denyut audit``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from denyut.monitoring.cli_base import as_json, command
from denyut.monitoring.cli_jobs import _cursor, _job_id

if TYPE_CHECKING:
    from denyut.app import Denyut
    from denyut.tasks.saving.audit import AuditEntry

__all__ = ["audit"]

_HEAD = ("WHEN", "WHO", "ACTION", "JOB", "BEFORE", "AFTER", "OUTCOME", "REASON")


def _some_job(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    return None if value is None else _job_id(context, parameter, value)


@click.command()
@click.option("--job", callback=_some_job, help="Only what was done to this job.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="Most entries.")
@click.option("--cursor", callback=_cursor, help="Go on where the last page ended.")
@as_json
@command
def audit(pulse: Denyut, job: str | None, limit: int, cursor: str | None, as_json: bool) -> None:
    """Tell what was done by hand, newest first: who, what, to which job, why, and what came of it."""
    from denyut.monitoring.text import columns, json_text

    page = pulse.jobs.audit(job, limit=limit, cursor=cursor)
    if as_json:
        click.echo(json_text({"entries": [each.as_dict() for each in page.entries], "cursor": page.cursor}))
        return
    if page.entries:
        click.echo(columns([_summary(entry) for entry in page.entries], _HEAD))
    elif page.cursor is None:
        click.echo("nothing was done by hand", err=True)
    if page.cursor is not None:
        click.echo(f"there are more: --cursor {page.cursor}", err=True)


def _summary(entry: AuditEntry) -> tuple[Any, ...]:
    from denyut.monitoring.text import time_text

    more = " ".join(f"{name}={value}" for name, value in entry.more.items() if value is not None)
    outcome = f"{entry.outcome} ({more})" if more else entry.outcome
    shown = (entry.actor, entry.action, entry.job_id, entry.before, entry.after, outcome, entry.reason)
    return (time_text(entry.at), *shown)
