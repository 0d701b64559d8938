"""``celery -A proj denyut jobs reindex``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from denyut.monitoring.cli_base import as_json, command

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["reindex"]


@click.command()
@as_json
@command
def reindex(pulse: Denyut, as_json: bool) -> None:
    """Put jobs back into the indexes that have lost them (keys deleted by hand, or evicted)."""
    from denyut.monitoring.text import json_text
    from denyut.tasks.actor import actor

    count = pulse.jobs.reindex(by=actor())
    click.echo(json_text({"put_back": count}) if as_json else f"{count} job(s) were put back")
