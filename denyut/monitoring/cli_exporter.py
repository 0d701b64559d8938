"""``celery -A proj denyut exporter``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from denyut.monitoring.cli_base import command
from denyut.monitoring.exporter import serve

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["exporter"]


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", type=click.IntRange(0, 65535), default=9808, show_default=True, help="0: a free one.")
@command
def exporter(pulse: Denyut, host: str, port: int) -> None:
    """Serve Prometheus metrics until it is stopped."""
    try:
        server, thread = serve(pulse, host, port)
    except OSError as exc:
        raise click.ClickException(f"cannot listen on {host}:{port}: {exc.strerror or exc}") from exc
    click.echo(f"metrics on http://{host}:{server.server_port}/metrics")
    thread.join()
