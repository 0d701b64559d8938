"""``celery -A proj denyut jobs reschedule``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from denyut.monitoring.cli_base import as_json, command, reason_option
from denyut.monitoring.cli_jobs import _job_id
from denyut.monitoring.cli_times import moment, seconds
from denyut.tasks.actor import actor

if TYPE_CHECKING:
    from datetime import datetime

    from denyut.app import Denyut

__all__ = ["reschedule"]


@click.command()
@click.argument("job", metavar="ID", callback=_job_id)
@click.option("--in", "countdown", callback=seconds, help="Due in 90, 90s, 10m, 2h, 1d; 0 is now.")
@click.option("--at", "eta", callback=moment, help="Due at this time (ISO 8601; no zone: this host's).")
@reason_option
@as_json
@command
def reschedule(
    pulse: Denyut, job: str, countdown: float | None, eta: datetime | None, reason: str, as_json: bool
) -> None:
    """Give a scheduled job, or a retry that waits, another time."""
    from denyut.monitoring.text import age, clean, json_text

    if (countdown is None) == (eta is None):
        raise click.UsageError("say either --in or --at")
    try:
        done = pulse.jobs.reschedule(job, eta=eta, countdown=countdown, reason=reason, by=actor())
    except ValueError as exc:
        raise click.ClickException(str(exc)) from exc
    if as_json:
        found = {"id": job, "changed": done.changed, "state": done.state, "due": done.due}
        click.echo(json_text({**found, "expires": done.expires}))
    if not done.changed:
        why = f"it is {done.state}; only one that waits has a time" if done.state else "there is no such job"
        raise click.ClickException(f"job {clean(job)} was not changed: {why}")
    if not as_json:
        now = pulse.jobs.get(job, fresh=True).now_us
        click.echo(f"job {clean(job)} is due {age(done.due, now)}")
        if done.expires and done.due and done.expires <= done.due:
            click.echo(f"but it expires {age(done.expires, now)}: it will not run", err=True)
