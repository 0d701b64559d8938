"""``celery -A proj denyut median read | streams`` and ``worker-median``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from denyut.monitoring.cli_base import as_json, command, print_json, table

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["median", "worker_median"]


@click.group()
def median() -> None:
    """Read the medians of event streams."""


@median.command()
@click.argument("stream")
@click.option("-q", "--quantile", "quantiles", type=float, multiple=True, default=(0.5,), show_default=True)
@as_json
@command
def read(pulse: Denyut, stream: str, quantiles: tuple[float, ...], as_json: bool) -> None:
    """Read the median of STREAM, or any other quantile from 0 to 1."""
    readings = [pulse.median.read(stream, quantile=quantile) for quantile in quantiles]
    if as_json:
        print_json([asdict(reading) for reading in readings])
        return
    rows = [[r.quantile, r.value, r.count, r.version, r.health] for r in readings]
    table(("QUANTILE", "VALUE", "COUNT", "VERSION", "HEALTH"), rows)


@median.command()
@as_json
@command
def streams(pulse: Denyut, as_json: bool) -> None:
    """List the streams, each with its number of events."""
    counts = pulse.median.streams()
    if as_json:
        print_json(counts)
        return
    table(("STREAM", "EVENTS"), sorted(counts.items()))


@click.command(name="worker-median", context_settings={"ignore_unknown_options": True})
@click.option("--shards", help="Only these shards, such as 0,1,2; all by default.")
@click.option("-l", "--loglevel", default="INFO", show_default=True)
@click.argument("extra", nargs=-1, type=click.UNPROCESSED)
@command
def worker_median(pulse: Denyut, shards: str | None, loglevel: str, extra: tuple[str, ...]) -> None:
    """Run a worker that applies the events of the median queues. EXTRA goes to ``celery worker``."""
    from denyut.median.worker import run

    run(pulse.app, _shards(shards), loglevel, extra)


def _shards(text: str | None) -> list[int] | None:
    if text is None:
        return None
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(
            f"--shards {text!r}: must be whole numbers with commas between, such as 0,1,2"
        ) from None
