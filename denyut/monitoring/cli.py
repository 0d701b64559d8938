"""``celery -A proj denyut ...``: the command line, put together.

Found by Celery through the entry point group ``celery.commands``.
"""

from __future__ import annotations

import click

from denyut.monitoring.cli_doctor import doctor
from denyut.monitoring.cli_exporter import exporter
from denyut.monitoring.cli_jobs import jobs
from denyut.monitoring.cli_median import median, worker_median

__all__ = ["denyut"]


@click.group()
def denyut() -> None:
    """See the jobs and medians of this app, and check that all is well."""


for _command in (jobs, median, doctor, exporter, worker_median):
    denyut.add_command(_command)
