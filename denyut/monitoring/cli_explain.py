"""``celery -A proj denyut jobs explain``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from denyut.monitoring.cli_base import as_json, command
from denyut.monitoring.cli_jobs import _job_id

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["explain"]


@click.command()
@click.argument("job_id", metavar="ID", callback=_job_id)
@as_json
@command
def explain(pulse: Denyut, job_id: str, as_json: bool) -> None:
    """Tell the story of one job: all that happened, how it stands, and what comes next."""
    from denyut.monitoring.text import json_text

    story = pulse.jobs.explain(job_id)
    click.echo(json_text(story.as_dict()) if as_json else "\n".join(story.lines()))
    if story.status.record is None:
        raise SystemExit(1)
