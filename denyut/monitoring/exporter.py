"""The Prometheus exporter: one small HTTP server, which reads Redis and the broker at every scrape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kombu.exceptions import OperationalError
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.registry import Collector
from redis.exceptions import RedisError

from denyut.monitoring.metrics import depth_metric, metrics_of, up_metric
from denyut.monitoring.queues import known_queues
from denyut.monitoring.scrape import scrape
from denyut.tasks.depth import queue_depths

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric

    from denyut.app import Denyut

__all__ = ["PulseCollector", "samples", "serve"]

#: Longest wait for one answer (s): Prometheus itself waits for ten seconds.
_TIMEOUT = 2.0


class PulseCollector(Collector):
    """A prometheus_client collector for one app: for a registry of your own, if you have a server already.

    With Redis away it yields ``denyut_up 0`` alone; with only the broker away no ``denyut_queue_depth``.

    Args:
        pulse: the app's Denyut.
    """

    def __init__(self, pulse: Denyut) -> None:
        self._pulse = pulse
        self._client: Any = None

    def describe(self) -> list[Metric]:
        """Nothing is known before the first scrape: registering must not connect."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        try:
            found = scrape(self._pulse, self._connected())
        except (RedisError, OSError):
            yield up_metric(up=False)
            return
        yield up_metric(up=True)
        yield from metrics_of(found)
        names = dict.fromkeys([*known_queues(self._pulse), *sorted(found.queues)])
        try:
            depths = queue_depths(self._pulse.app, names, timeout=_TIMEOUT)
        except (OperationalError, RedisError, OSError):
            return
        yield depth_metric(depths)

    def _connected(self) -> Any:
        if self._client is None:
            timeout = min(self._pulse.settings.redis_timeout, _TIMEOUT)
            # One retry: a connection of the last scrape may be dead by now.
            self._client = self._pulse.store.fresh(retries=1, timeout=timeout)
        return self._client

    def close(self) -> None:
        """Close the connection to Redis; the next scrape opens another."""
        if self._client is not None:
            self._client.close()
            self._client = None


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


def samples(pulse: Denyut) -> list[dict[str, Any]]:
    """Return all metrics of this moment as plain data: name, labels and value of each sample."""
    return [
        {"name": sample.name, "labels": sample.labels, "value": sample.value}
        for family in PulseCollector(pulse).collect()
        for sample in family.samples
    ]
