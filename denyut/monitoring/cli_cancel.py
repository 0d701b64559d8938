"""``celery -A proj denyut jobs cancel | release``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from denyut.monitoring.cli_base import as_json, command, reason_option
from denyut.tasks.actor import actor

if TYPE_CHECKING:
    from collections.abc import Callable

    from denyut.app import Denyut

__all__ = ["cancel", "release"]

_ids = click.argument("job_ids", metavar="ID...", nargs=-1, required=True)


@click.command()
@_ids
@reason_option
@as_json
@command
def cancel(pulse: Denyut, job_ids: tuple[str, ...], reason: str, as_json: bool) -> None:
    """Cancel jobs: one that waits ends at once, one that runs is told to stop."""
    _each(job_ids, lambda job_id: pulse.jobs.cancel(job_id, reason=reason, by=actor()), as_json)


@click.command()
@_ids
@reason_option
@as_json
@command
def release(pulse: Denyut, job_ids: tuple[str, ...], reason: str, as_json: bool) -> None:
    """Take running jobs away from their workers: they run again, and no budget counts it."""
    _each(job_ids, lambda job_id: pulse.jobs.release(job_id, reason=reason, by=actor()), as_json)


def _each(job_ids: tuple[str, ...], act: Callable[[str], Any], as_json: bool) -> None:
    """Act on each job; one that is refused does not keep the others from it, and makes the exit code 1."""
    from dataclasses import asdict

    from denyut.errors import DenyutError
    from denyut.monitoring.text import clean, json_text

    failed = False
    for job_id in job_ids:
        try:
            done = act(job_id)
        except DenyutError as exc:
            failed = True
            click.echo(f"Error: {clean(str(exc))}", err=True)
        else:
            click.echo(json_text(asdict(done), indent=None) if as_json else clean(str(done)))
    if failed:
        raise click.exceptions.Exit(1)
