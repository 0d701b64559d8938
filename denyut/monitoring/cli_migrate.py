"""``celery -A proj denyut migrate``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from denyut.monitoring.cli_base import as_json, command

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["migrate"]


@click.command()
@as_json
@command
def migrate(pulse: Denyut, as_json: bool) -> None:
    """Make the tables of the job store that are not there yet. May be run again."""
    from denyut.database.tables import metadata
    from denyut.monitoring.text import json_text

    pulse.database.create()
    names = sorted(metadata().tables)
    click.echo(json_text({"tables": names}) if as_json else f"there are now: {', '.join(names)}")
