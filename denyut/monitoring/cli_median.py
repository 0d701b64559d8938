"""``celery -A proj denyut median read | streams``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from denyut.monitoring.cli_base import as_json, command

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["median"]

_HEAD = ("QUANTILE", "VALUE", "COUNT", "VERSION", "DUPLICATES", "CONFLICTS", "HEALTH")


@click.group()
def median() -> None:
    """Read the medians of event streams."""


@median.command()
@click.argument("stream")
@click.option(
    "-q",
    "--quantile",
    "quantiles",
    type=click.FloatRange(0, 1),
    multiple=True,
    default=(0.5,),
    show_default=True,
    help="0 is the minimum, 1 the maximum; may be given more than once.",
)
@as_json
@command
def read(pulse: Denyut, stream: str, quantiles: tuple[float, ...], as_json: bool) -> None:
    """Read the median of STREAM, or other quantiles."""
    from denyut.monitoring.text import columns, json_text

    readings = [pulse.median.read(stream, quantile=quantile) for quantile in quantiles]
    if as_json:
        click.echo(json_text([asdict(reading) for reading in readings]))
        return
    rows = [(r.quantile, r.value, r.count, r.version, r.duplicates, r.conflicts, r.health) for r in readings]
    click.echo(columns(rows, _HEAD))


@median.command()
@as_json
@command
def streams(pulse: Denyut, as_json: bool) -> None:
    """List the streams, each with its number of events."""
    from denyut.monitoring.text import columns, json_text

    counts = pulse.median.streams()
    if as_json:
        click.echo(json_text(counts))
    elif counts:
        click.echo(columns(list(counts.items()), ("STREAM", "EVENTS")))
    else:
        click.echo("no streams", err=True)
