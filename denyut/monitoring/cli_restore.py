"""``celery -A proj denyut jobs restore``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from denyut.monitoring.cli_base import as_json, command

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["restore"]


@click.command()
@as_json
@command
def restore(pulse: Denyut, as_json: bool) -> None:
    """Put back from the job store what Redis has lost (workers do it by themselves after a loss)."""
    from denyut.monitoring.text import json_text
    from denyut.tasks.actor import actor

    count = pulse.jobs.restore(by=actor())
    click.echo(json_text({"put_back": count}) if as_json else f"{count} job(s) were put back")
