"""``celery -A proj denyut ...``: the command line, put together.

Celery finds it through the entry point group ``celery.commands``, and imports it for each of its own
commands, too: so nothing heavy is imported here.
"""

from __future__ import annotations

import click

from denyut.monitoring.cli_audit import audit
from denyut.monitoring.cli_cancel import cancel, release
from denyut.monitoring.cli_dead import dead, retry
from denyut.monitoring.cli_doctor import doctor
from denyut.monitoring.cli_explain import explain
from denyut.monitoring.cli_exporter import exporter
from denyut.monitoring.cli_jobs import jobs
from denyut.monitoring.cli_locks import locks
from denyut.monitoring.cli_median import median
from denyut.monitoring.cli_migrate import migrate
from denyut.monitoring.cli_outbox import outbox
from denyut.monitoring.cli_reindex import reindex
from denyut.monitoring.cli_restore import restore
from denyut.monitoring.cli_schedule import reschedule
from denyut.monitoring.cli_worker_median import worker_median

__all__ = ["denyut"]


@click.group()
def denyut() -> None:
    """See the jobs and medians of this app, and check that all is well."""


for _command in (cancel, dead, explain, reindex, release, restore, retry, reschedule):
    jobs.add_command(_command)
for _command in (audit, jobs, locks, median, doctor, exporter, migrate, outbox, worker_median):
    denyut.add_command(_command)
