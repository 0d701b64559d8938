"""``celery -A proj denyut exporter``."""

from __future__ import annotations

import signal
from threading import Event
from typing import TYPE_CHECKING

import click

from denyut.monitoring.cli_base import command

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["exporter"]


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=9808, show_default=True, help="0: a free one.")
@command
def exporter(pulse: Denyut, host: str, port: int) -> None:
    """Serve Prometheus metrics until it is told to stop (SIGTERM, Ctrl-C)."""
    from denyut.monitoring.exporter import serve

    pulse.redis_url()  # without any Redis it must not start
    try:
        server, thread = serve(pulse, host, port)
    except OSError as exc:
        raise click.ClickException(f"cannot listen on {host}:{port}: {exc.strerror or exc}") from exc
    stop = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    shown = f"[{host}]" if ":" in host else host
    click.echo(f"metrics on http://{shown}:{server.server_port}/metrics")
    stop.wait()
    server.shutdown()
    server.server_close()
    thread.join()
