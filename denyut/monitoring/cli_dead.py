"""``celery -A proj denyut jobs dead list | show | retry | purge``, and ``jobs retry``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from denyut.monitoring.cli_base import as_json, command, reason_option
from denyut.monitoring.cli_jobs import _cursor, _job_id
from denyut.tasks.actor import actor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from denyut.app import Denyut

__all__ = ["dead", "retry"]

_HEAD = ("ID", "TASK", "BUDGET", "REASON", "ATTEMPTS", "DIED")
_PAGE = 100

_task = click.option("--task", help="Only those of this task.")
_from_checkpoint = click.option(
    "--from-checkpoint", is_flag=True, help="Begin at the last checkpoint, not from the start."
)
_force = click.option("--force", is_flag=True, help="Also if it has been retried already.")


def _ids(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> list[str]:
    return [_job_id(context, parameter, each) for each in value]


_some_ids = click.argument("job_ids", metavar="[ID]...", nargs=-1, callback=_ids)


@click.group()
def dead() -> None:
    """Dead letters: jobs whose budget of failures or crashes is spent."""


@dead.command(name="list")
@_task
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="Most letters.")
@click.option("--cursor", callback=_cursor, help="Go on where the last page ended.")
@as_json
@command
def list_(pulse: Denyut, task: str | None, limit: int, cursor: str | None, as_json: bool) -> None:
    """List dead letters, newest first."""
    from denyut.monitoring.letter import summary
    from denyut.monitoring.text import columns, json_text

    page = pulse.jobs.dead(task=task, limit=limit, cursor=cursor)
    if as_json:
        letters = [letter.as_dict() for letter in page.letters]
        click.echo(json_text({"letters": letters, "cursor": page.cursor}))
        return
    if page.letters:
        now = pulse.store.now_us()
        click.echo(columns([summary(letter, now) for letter in page.letters], _HEAD))
    elif page.cursor is None:
        click.echo("no dead letters", err=True)
    if page.cursor is not None:
        click.echo(f"there are more: --cursor {page.cursor}", err=True)


@dead.command()
@click.argument("job_id", metavar="ID", callback=_job_id)
@as_json
@command
def show(pulse: Denyut, job_id: str, as_json: bool) -> None:
    """Show one dead letter: its reason, its arguments, and what every attempt died of."""
    from denyut.monitoring.letter import told
    from denyut.monitoring.text import clean, json_text
    from denyut.tasks.dead import is_dead, read_letters

    letters = read_letters(pulse, [job_id]) if is_dead(pulse, job_id) else []
    if not letters:
        verdict = pulse.jobs.get(job_id, fresh=True).verdict
        raise click.ClickException(f"job {clean(job_id)} is no dead letter: it is {verdict}")
    click.echo(json_text(letters[0].as_dict()) if as_json else told(letters[0], pulse.store.now_us()))


@dead.command(name="retry")
@_some_ids
@click.option("--all", "every", is_flag=True, help="Every dead letter (of --task, if that is given).")
@_task
@_from_checkpoint
@reason_option
@as_json
@command
def retry_dead(
    pulse: Denyut, job_ids: list[str], every: bool, task: str | None, as_json: bool, **how: Any
) -> None:
    """Retry dead letters: each becomes a new job, and leaves the list."""
    if bool(job_ids) == every or (task and not every):
        raise click.UsageError("name the jobs, or say --all (with --task for those of one task)")
    ids = _every(pulse, task) if every else job_ids
    _retry(ids, lambda job_id: pulse.jobs.retry(job_id, by=actor(), **how), as_json)


@dead.command()
@_some_ids
@_task
@click.option("--older-than", type=click.FloatRange(min=0), help="Only those that died so many seconds ago.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@reason_option
@as_json
@command
def purge(
    pulse: Denyut,
    job_ids: list[str],
    task: str | None,
    older_than: float | None,
    yes: bool,
    reason: str,
    as_json: bool,
) -> None:
    """Let go of dead letters for ever: those named, or all that fit."""
    from denyut.monitoring.text import clean, json_text

    if not yes:
        which = f"{len(job_ids)} dead letter(s)" if job_ids else "all dead letters"
        which += f" of task {clean(task)}" if task else ""
        which += f" older than {older_than:g} s" if older_than is not None else ""
        click.confirm(f"Purge {which}?", abort=True, err=True)
    purged = pulse.jobs.purge(
        *job_ids, task=task, older_than=older_than, every=True, reason=reason, by=actor()
    )
    click.echo(json_text({"purged": purged}) if as_json else f"purged {purged} dead letter(s)")


@click.command()
@click.argument("job_id", metavar="ID", callback=_job_id)
@_from_checkpoint
@_force
@reason_option
@as_json
@command
def retry(pulse: Denyut, job_id: str, as_json: bool, **how: Any) -> None:
    """Retry one job that has ended: a new job with the same message."""
    _retry([job_id], lambda old: pulse.jobs.retry(old, by=actor(), **how), as_json)


def _every(pulse: Denyut, task: str | None) -> Iterator[str]:
    cursor = None
    while True:
        page = pulse.jobs.dead(task=task, limit=_PAGE, cursor=cursor)
        yield from (letter.id for letter in page.letters)
        if (cursor := page.cursor) is None:
            return


def _retry(ids: Iterable[str], again: Callable[[str], Any], as_json: bool) -> None:
    """Retry each and say what it became; one that cannot be retried does not hinder the others."""
    from denyut.errors import DenyutError
    from denyut.monitoring.text import clean, json_text

    made: dict[str, str] = {}
    refused: dict[str, str] = {}
    for job_id in ids:
        try:
            made[job_id] = again(job_id).id
        except DenyutError as exc:
            refused[job_id] = str(exc)
            continue
        if not as_json:
            click.echo(f"{clean(job_id)} is retried as {made[job_id]}")
    if as_json:
        click.echo(json_text({"retried": made, "refused": refused}))
    for reason in refused.values():
        click.echo(f"Error: {clean(reason)}", err=True)
    if refused:
        raise SystemExit(1)
    if not made and not as_json:
        click.echo("no dead letters", err=True)
