"""The exporter: metrics against the store, over HTTP, and with Redis away."""

from __future__ import annotations

import time
from collections.abc import Iterator
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support import free_port

from denyut.monitoring.exporter import PulseCollector, serve


class Endpoint:
    """A running exporter."""

    def __init__(self, pulse) -> None:
        self.server, self.thread = serve(pulse, port=0)
        self.url = f"http://127.0.0.1:{self.server.server_port}/metrics"

    def scrape(self) -> dict[tuple[str, ...], float]:
        with urlopen(self.url, timeout=10) as answer:
            assert answer.status == 200
            text = answer.read().decode()
        return {
            (sample.name, *sample.labels.values()): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(10)


@pytest.fixture
def export() -> Iterator:
    running = []

    def start(pulse) -> Endpoint:
        running.append(Endpoint(pulse))
        return running[-1]

    yield start
    for endpoint in running:
        endpoint.close()


def test_metrics_are_what_the_store_says(desk, export):
    """The contract: real enqueues, counted by their scripts, against the indexes themselves."""
    app = desk.pulse.app

    @app.task(shared=False, name="t.now", idempotency_key="k:{n}")
    def now(n): ...

    for n in (1, 2, 2, 3):
        now.delay(n)
    now.apply_async((4,), countdown=60)
    desk.running("r", 3)
    told = export(desk.pulse).scrape()
    parts = desk.pulse.keys.all_partitions()

    def cards(index: str) -> int:
        return sum(desk.client.zcard(getattr(part, index)) for part in parts)

    assert told["denyut_up",] == 1
    assert told["denyut_jobs_total", "enqueued", "t.now"] == 4
    assert told["denyut_jobs_total", "duplicate", "t.now"] == 1
    assert told["denyut_jobs_now", "queued"] == cards("queued") == 3
    assert told["denyut_jobs_now", "scheduled"] == cards("schedule") == 1
    assert told["denyut_jobs_now", "running"] == cards("leases") == 1
    assert 3 <= told["denyut_oldest_age_seconds", "running"] < 30
    assert told["denyut_queue_depth", app.conf.task_default_queue] == 3
    assert told["denyut_queue_depth", "median.0"] == 0


def test_the_number_of_series_does_not_grow_with_jobs(desk, export):
    endpoint = export(desk.pulse)
    desk.running("first", 1)
    before = len(endpoint.scrape())
    for n in range(50):
        desk.running(f"r{n}", n)
        desk.queued(f"q{n}", n)
    assert len(endpoint.scrape()) == before


def test_queues_that_only_workers_know_are_told_too(desk, export):
    desk.client.hset(desk.pulse.keys.partition(0).counters, "passed_us:elsewhere", 5)
    desk.pulse.app.send_task("t", queue="elsewhere")
    assert export(desk.pulse).scrape()["denyut_queue_depth", "elsewhere"] == 1


def test_with_redis_away_the_exporter_says_so_and_recovers(pulse, restartable_valkey, export):
    endpoint = export(pulse(url=restartable_valkey.url))
    assert endpoint.scrape()["denyut_up",] == 1
    restartable_valkey.kill()
    assert endpoint.scrape() == {("denyut_up",): 0}
    restartable_valkey.start()
    assert endpoint.scrape()["denyut_up",] == 1


def test_a_redis_that_does_not_answer_does_not_hang_a_scrape(pulse, restartable_valkey, export):
    endpoint = export(pulse(url=restartable_valkey.url, denyut_redis_timeout=0.3))
    restartable_valkey.pause()
    try:
        begin = time.monotonic()
        assert endpoint.scrape() == {("denyut_up",): 0}
        assert time.monotonic() - begin < 5
    finally:
        restartable_valkey.resume()


def test_a_broker_that_is_away_costs_the_depths_and_nothing_else(pulse, valkey_server, export):
    broker = f"redis://127.0.0.1:{free_port()}/0"
    told = export(pulse(broker_url=broker, denyut_redis_url=valkey_server.url)).scrape()
    assert told["denyut_up",] == 1
    assert not [name for name, *_ in told if name == "denyut_queue_depth"]


def test_registering_the_collector_connects_to_nothing(pulse):
    from prometheus_client import CollectorRegistry

    collector = PulseCollector(pulse(url=f"redis://127.0.0.1:{free_port()}/0"))
    CollectorRegistry(auto_describe=True).register(collector)
    assert collector._client is None
    collector.close()


def test_an_address_that_is_taken_is_an_error(pulse, export):
    endpoint = export(pulse())
    with pytest.raises(OSError, match="in use"):
        serve(pulse(), port=endpoint.server.server_port)
