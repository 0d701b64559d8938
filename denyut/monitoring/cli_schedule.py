"""``celery -A proj denyut jobs reschedule``."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING

import click

from denyut.monitoring.cli_base import as_json, command
from denyut.monitoring.cli_jobs import _job_id

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["reschedule"]

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")


def _seconds(_context: click.Context, _parameter: click.Parameter, value: str | None) -> float | None:
    if value is None:
        return None
    match = _AMOUNT.fullmatch(value.strip().lower())
    if match is None or match[2] not in _UNITS:
        raise click.BadParameter(f"{value!r}: must be a time such as 90, 90s, 10m, 2h or 1d")
    return float(match[1]) * _UNITS[match[2]]


def _moment(_context: click.Context, _parameter: click.Parameter, value: str | None) -> datetime | None:
    if value is None:
        return None
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        raise click.BadParameter(f"{value!r}: must be a time such as 2026-12-24T18:00:00+01:00") from None
    # A person means the clock on the wall.
    return found if found.tzinfo else found.astimezone()


@click.command()
@click.argument("job", metavar="ID", callback=_job_id)
@click.option("--in", "countdown", callback=_seconds, help="Due in 90, 90s, 10m, 2h, 1d; 0 is now.")
@click.option("--at", "eta", callback=_moment, help="Due at this time (ISO 8601; no zone: this host's).")
@as_json
@command
def reschedule(pulse: Denyut, job: str, countdown: float | None, eta: datetime | None, as_json: bool) -> None:
    """Give a scheduled job, or a retry that waits, another time."""
    from denyut.monitoring.text import age, clean, json_text

    if (countdown is None) == (eta is None):
        raise click.UsageError("say either --in or --at")
    try:
        done = pulse.jobs.reschedule(job, eta=eta, countdown=countdown)
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
