"""``celery -A proj denyut worker-median``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from denyut.monitoring.cli_base import command

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["worker_median"]


def _numbers(_context: click.Context, _parameter: click.Parameter, value: str | None) -> list[int] | None:
    if value is None:
        return None
    try:
        return [int(part) for part in value.split(",")]
    except ValueError:
        raise click.BadParameter(f"{value!r}: must be numbers with commas, such as 0,1,2") from None


@click.command(name="worker-median", context_settings={"ignore_unknown_options": True})
@click.option("--shards", callback=_numbers, help="Only these shards, such as 0,1,2; all by default.")
@click.option("-l", "--loglevel", default="INFO", show_default=True, help="As of celery worker.")
@click.argument("options", nargs=-1, type=click.UNPROCESSED, metavar="[OPTIONS OF CELERY WORKER]...")
@command
def worker_median(pulse: Denyut, shards: list[int] | None, loglevel: str, options: tuple[str, ...]) -> None:
    """Run a worker that applies the events of the median queues."""
    from denyut.median.worker import run

    raise SystemExit(run(pulse.app, shards, loglevel, options))
