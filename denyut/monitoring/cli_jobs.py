"""``celery -A proj denyut jobs show | list | watch``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from denyut.monitoring.cli_base import as_json, command
from denyut.monitoring.cli_times import past
from denyut.states import State

if TYPE_CHECKING:
    from denyut.app import Denyut
    from denyut.monitoring.jobs import Page
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
@click.option("--key", help="Only jobs with this idempotency key.")
@click.option("--since", callback=past, help="Only what changed since: 90s, 10m, 2h, 1d ago, or ISO 8601.")
@click.option("--until", callback=past, help="Only what changed before that.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="Most jobs.")
@click.option("--cursor", callback=_cursor, help="Go on where the last page ended.")
@as_json
@command
def list_(pulse: Denyut, limit: int, cursor: str | None, as_json: bool, **filters: Any) -> None:
    """List live jobs, and those that have ended and are still known; newest first."""
    from denyut.errors import DenyutError
    from denyut.monitoring.facts import summary
    from denyut.monitoring.text import columns, json_text

    try:
        page = _page(pulse, limit, cursor, filters)
    except DenyutError:  # some are ValueErrors, too, and no fault of the options
        raise
    except ValueError as exc:
        raise click.UsageError(str(exc)) from exc
    if as_json:
        found = {"jobs": [job.as_dict() for job in page.jobs], "cursor": page.cursor}
        click.echo(json_text({**found, "complete": page.complete}))
    elif page.jobs:
        click.echo(columns([summary(job) for job in page.jobs], _HEAD))
    elif page.cursor is None:
        click.echo("no jobs", err=True)
    if not page.complete:
        click.echo("the job store could not be asked: jobs that Redis has forgotten are missing", err=True)
    if page.cursor is not None and not as_json:
        click.echo(f"there are more: --cursor {page.cursor}", err=True)


def _page(pulse: Denyut, limit: int, cursor: str | None, filters: dict[str, Any]) -> Page:
    """Return one full page: a person does not want to turn those that are empty."""
    from dataclasses import replace

    page = pulse.jobs.list(limit=limit, cursor=cursor, **filters)
    while page.cursor is not None and len(page.jobs) < limit:
        more = pulse.jobs.list(limit=limit - len(page.jobs), cursor=page.cursor, **filters)
        page = replace(
            page, jobs=[*page.jobs, *more.jobs], cursor=more.cursor, complete=page.complete and more.complete
        )
    return page


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

    if status.gone is not None:
        return f"job {clean(status.id)} is gone: {status.gone}"
    why = "no job was ever kept in its partition" if status.marked_us is None else "or its retention is over"
    return f"no job has the id {clean(status.id)}, {why}"
