"""``celery -A proj denyut exporter``."""

from __future__ import annotations

import signal
from threading import Event
from typing import TYPE_CHECKING

import click

from denyut.monitoring.cli_base import as_json, command
from denyut.monitoring.text import json_text

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["exporter"]


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=9808, show_default=True, help="0: a free one.")
@as_json
@command
def exporter(pulse: Denyut, host: str, port: int, as_json: bool) -> None:
    """Serve Prometheus metrics until it is told to stop (SIGTERM, Ctrl-C). With --json: print them once."""
    from denyut.monitoring.exporter import samples, serve

    pulse.redis_url()  # without any Redis it must not start
    if as_json:
        click.echo(json_text(samples(pulse)))
        return
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
