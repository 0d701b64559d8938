"""``celery -A proj denyut jobs show | list | watch``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from denyut.monitoring.cli_base import as_json, command
from denyut.states import State

if TYPE_CHECKING:
    from denyut.app import Denyut
    from denyut.monitoring.status import Status

__all__ = ["jobs"]

#: A person who watches a job sees what happens half a second later at most.
_LOOK_EVERY = 0.5
_HEAD = ("ID", "TASK", "VERDICT", "ATTEMPT", "PROGRESS", "STAGE", "ENQUEUED", "DUE")
_STATES = click.Choice([str(state) for state in State], case_sensitive=False)


def _job_id(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    from denyut.errors import InvalidKey
    from denyut.tasks.key import check_id

    try:
        return check_id(value)
    except InvalidKey as exc:
        raise click.BadParameter(str(exc)) from exc


def _cursor(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    from denyut.monitoring.listing import parse_cursor

    try:
        parse_cursor(value)
    except ValueError as exc:
        raise click.BadParameter(str(exc)) from exc
    return value


@click.group()
def jobs() -> None:
    """Look at jobs."""


@jobs.command()
@click.argument("job_id", metavar="ID", callback=_job_id)
@as_json
@command
def show(pulse: Denyut, job_id: str, as_json: bool) -> None:
    """Show one job: its verdict, its record and its newest beat."""
    from denyut.monitoring.facts import facts
    from denyut.monitoring.text import columns, json_text

    status = pulse.jobs.get(job_id, fresh=True)
    if status.record is None:
        raise click.ClickException(_unknown(status))
    click.echo(json_text(status.as_dict()) if as_json else columns(facts(status)))


@jobs.command(name="list")
@click.option("--state", type=_STATES, help="Only jobs in this state.")
@click.option("--task", help="Only jobs of this task.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="Most jobs.")
@click.option("--cursor", callback=_cursor, help="Go on where the last page ended.")
@as_json
@command
def list_(
    pulse: Denyut, state: str | None, task: str | None, limit: int, cursor: str | None, as_json: bool
) -> None:
    """List live jobs, and those that have ended within their retention; newest first."""
    from denyut.monitoring.facts import summary
    from denyut.monitoring.text import columns, json_text

    page = pulse.jobs.list(state=state, task=task, limit=limit, cursor=cursor)
    if as_json:
        click.echo(json_text({"jobs": [job.as_dict() for job in page.jobs], "cursor": page.cursor}))
        return
    if page.jobs:
        click.echo(columns([summary(job) for job in page.jobs], _HEAD))
    elif page.cursor is None:
        click.echo("no jobs", err=True)
    if page.cursor is not None:
        click.echo(f"there are more: --cursor {page.cursor}", err=True)


@jobs.command()
@click.argument("job_id", metavar="ID", callback=_job_id)
@click.option("--timeout", type=click.FloatRange(min=0), help="Stop after so many seconds.")
@as_json
@command
def watch(pulse: Denyut, job_id: str, timeout: float | None, as_json: bool) -> None:
    """Follow one job to its end: a line for each change."""
    from denyut.monitoring.facts import news
    from denyut.monitoring.text import json_text

    first = pulse.jobs.get(job_id, fresh=True)
    if first.record is None:
        raise click.ClickException(_unknown(first))
    for status in pulse.jobs.watch(job_id, timeout=timeout, every=_LOOK_EVERY):
        click.echo(json_text(status.as_dict(), indent=None) if as_json else news(status))


def _unknown(status: Status) -> str:
    from denyut.monitoring.text import clean

    why = "no job was ever kept in its partition" if status.marked_us is None else "or its retention is over"
    return f"no job has the id {clean(status.id)}, {why}"
