from __future__ import annotations

from celery import Celery
from celery.contrib.testing.worker import start_worker
from support import wait_until

from denyut.signals.step import add_step


def test_start_and_end_of_a_worker_are_told(valkey_server):
    # Without Denyut, which adds a step of its own: a worker has one of a name.
    app = Celery("plain", broker=valkey_server.url, set_as_current=False)
    calls = []
    add_step(
        app,
        lambda worker: calls.append(worker.pool is not None),
        lambda: calls.append("stops"),
        lambda: calls.append("ended"),
    )
    with start_worker(app, pool="solo", perform_ping_check=False, shutdown_timeout=30):
        assert calls == [True]
    wait_until(lambda: calls == [True, "stops", "ended"], what="the end to be told")


def test_the_worker_of_celerys_own_test_fixtures_has_a_heartbeat_and_recovers(pulse):
    one = pulse(denyut_recovery_interval=0.05)

    @one.app.task(name="t.later", shared=False)
    def later():
        return "done"

    with start_worker(one.app, pool="solo", perform_ping_check=False, shutdown_timeout=30):
        wait_until(lambda: one.store.client.zcard(one.keys.workers()) == 1, what="the worker's first beat")
        result = later.apply_async(countdown=0.1)
        assert result.get(timeout=10) == "done"
