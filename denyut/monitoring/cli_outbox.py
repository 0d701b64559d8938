"""``celery -A proj denyut outbox list | retry | purge | migrate``."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import click

from denyut.errors import ConfigurationError, OutboxUnavailable
from denyut.monitoring.cli_base import as_json, command
from denyut.monitoring.cli_dead import _some_ids

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy import Connection

    from denyut.app import Denyut
    from denyut.database.engine import Database
    from denyut.tasks.outbox.places import Place

__all__ = ["outbox"]

_HEAD = ("ID", "TASK", "KEY", "WRITTEN", "TRIES", "STATE", "ERROR")


@click.group()
def outbox() -> None:
    """Jobs that a transaction has enqueued, and that are not sent yet."""


@outbox.command(name="list")
@click.option("--aside", is_flag=True, help="Only those that are not tried any more.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="Most rows.")
@as_json
@command
def list_(pulse: Denyut, aside: bool, limit: int, as_json: bool) -> None:
    """List them in the order of their enqueue."""
    from denyut.database.outbox_hands import list_rows
    from denyut.monitoring.text import columns, json_text

    prefix = pulse.settings.prefix
    pages = _each(pulse, lambda connection: list_rows(connection, prefix, aside=aside, limit=limit))
    rows = [row for page in pages for row in page][:limit]
    if as_json:
        click.echo(json_text({"rows": [row.as_dict() for row in rows]}))
    elif rows:
        click.echo(columns([_summary(row) for row in rows], _HEAD))
    else:
        click.echo("nothing waits", err=True)


@outbox.command()
@_some_ids
@click.option("--all", "every", is_flag=True, help="All that are set aside.")
@as_json
@command
def retry(pulse: Denyut, job_ids: list[str], every: bool, as_json: bool) -> None:
    """Let rows be tried again, at once."""
    from denyut.database.outbox_hands import retry_rows
    from denyut.tasks.saving.audit import audited

    _check_which(job_ids, every=every)
    prefix, ids = pulse.settings.prefix, None if every else job_ids
    with audited(pulse, "outbox retry", ids=ids, every=every) as entry:
        count = sum(_each(pulse, lambda connection: retry_rows(connection, prefix, ids)))
        entry.more["count"] = count
    pulse.outbox.poker.poke()
    _say(count, "are tried again", "retried", job_ids, as_json=as_json)


@outbox.command()
@_some_ids
@click.option("--all", "every", is_flag=True, help="All that are set aside.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@as_json
@command
def purge(pulse: Denyut, job_ids: list[str], every: bool, yes: bool, as_json: bool) -> None:
    """Delete rows for ever: their jobs will never be."""
    from denyut.database.outbox_hands import purge_rows
    from denyut.tasks.saving.audit import audited

    _check_which(job_ids, every=every)
    if not yes:
        which = "all rows that are set aside" if every else f"{len(job_ids)} row(s)"
        click.confirm(f"Delete {which}? Their jobs will never be", abort=True, err=True)
    prefix, ids = pulse.settings.prefix, None if every else job_ids
    with audited(pulse, "outbox purge", ids=ids, every=every) as entry:
        count = sum(_each(pulse, lambda connection: purge_rows(connection, prefix, ids)))
        entry.more["count"] = count
    _say(count, "are deleted", "purged", job_ids, as_json=as_json)


@outbox.command()
@click.option("--check", is_flag=True, help="Make nothing; fail if a table or a column is missing.")
@as_json
@command
def migrate(pulse: Denyut, check: bool, as_json: bool) -> None:
    """Make the table, or what it lacks, where that is ours to do; Django's databases have its migrations."""
    from denyut.database.outbox import find_missing
    from denyut.database.outbox_make import make_outbox
    from denyut.monitoring.text import clean, json_text

    done: dict[str, str] = {}
    for place, database in _databases(pulse):
        with _named(place):
            if place.alias is None and not check:
                make_outbox(database.engine)
            missing = find_missing(database.engine)
        if missing:
            raise ConfigurationError(f"{place.shown} lacks {', '.join(missing)}; {_todo(place, check=check)}")
        done[place.shown] = "Django's" if place.alias is not None else "Denyut's"
    if as_json:
        click.echo(json_text({"outboxes": done}))
        return
    for shown, owner in done.items():
        click.echo(f"{clean(shown)} has its table, which is {owner}")


def _todo(place: Place, *, check: bool) -> str:
    if place.alias is not None:
        return (
            "put 'denyut.contrib.django' into INSTALLED_APPS and run: "
            f"manage.py migrate --database {place.alias}"
        )
    if check:
        return "make it: celery -A APP denyut outbox migrate"
    return "somebody has changed its table: add them as in denyut/database/outbox.py"


def _databases(pulse: Denyut) -> Iterator[tuple[Place, Database]]:
    from denyut.tasks.outbox.places import places

    known = places(pulse)
    if not known:
        raise ConfigurationError("there is no outbox: denyut_outbox_url is not set")
    for place in known:
        with closing(place.open(pulse.settings.database_timeout)) as database:
            yield place, database


@contextmanager
def _named(place: Place) -> Iterator[None]:
    """Say of which database an error is."""
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except SQLAlchemyError as exc:
        raise OutboxUnavailable(f"{place.shown}: {str(exc).splitlines()[0]}") from exc


def _each(pulse: Denyut, work: Callable[[Connection], Any]) -> list[Any]:
    answers = []
    for place, database in _databases(pulse):
        with _named(place), database.begin() as connection:
            answers.append(work(connection))
    return answers


def _check_which(job_ids: list[str], *, every: bool) -> None:
    if bool(job_ids) == every:
        raise click.UsageError("name the jobs, or say --all")


def _say(count: int, words: str, name: str, job_ids: list[str], *, as_json: bool) -> None:
    from denyut.monitoring.text import json_text

    click.echo(json_text({name: count}) if as_json else f"{count} row(s) {words}")
    if count < len(job_ids):
        raise click.ClickException(f"{len(job_ids) - count} of the jobs are in no outbox (any more)")


def _summary(row: Any) -> tuple[Any, ...]:
    state = "aside" if row.aside else "waits"
    return (row.id, row.task, row.key, f"{row.age:.1f} s ago", row.attempts, state, row.error)
