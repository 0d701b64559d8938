"""The Prometheus exporter: one small HTTP server, which reads Redis at every scrape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, start_http_server

from denyut.monitoring.metrics import PulseCollector

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["serve"]


def serve(pulse: Denyut, host: str = "127.0.0.1", port: int = 9808) -> tuple[Any, Any]:
    """Serve the metrics of an app under ``/metrics`` from a thread, and return (server, thread).

    Args:
        pulse: the app's Denyut.
        host: address to listen on; whoever can reach it can read task and queue names.
        port: 0 for a free one; ``server.server_port`` tells which.

    Raises:
        OSError: if the address cannot be used.
    """
    registry = CollectorRegistry()
    registry.register(PulseCollector(pulse))
    return start_http_server(port, addr=host, registry=registry)
