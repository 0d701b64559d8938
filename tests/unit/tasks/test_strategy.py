"""How a worker receives a job's messages: those for later are kept in the store and acknowledged."""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace

import pytest
from celery import Celery

from denyut.states import State
from denyut.tasks.strategy import job_strategy


@pytest.fixture
def consumer(bench):
    """What Celery's strategy needs of the worker's consumer; keeps what it was told."""
    told = SimpleNamespace(scheduled=[], requests=[], errors=[])
    told.consumer = SimpleNamespace(
        hostname="w", connection_errors=(), event_dispatcher=None, app=bench.app,
        timer=SimpleNamespace(call_at=lambda at, *_, **__: told.scheduled.append(at)),
        apply_eta_task=None, disable_rate_limits=True, task_buckets=defaultdict(lambda: None),
        on_task_request=told.requests.append, _limit_task=None, _limit_post_eta=None,
        pool=SimpleNamespace(apply_async=None),
        controller=SimpleNamespace(state=SimpleNamespace(revoked=set())),
        qos=SimpleNamespace(increment_eventually=lambda: None),
    )  # fmt: skip
    return told


@pytest.fixture
def task(bench):
    bench.task(name="t.later")(_later)
    bench.app.finalize()
    return bench.app.tasks["t.later"]


def _later():
    return None


@pytest.fixture
def plain(bench):
    app = Celery("plain", broker=bench.app.conf.broker_url, set_as_current=False)
    app.conf.task_default_queue = bench.app.conf.task_default_queue
    yield app
    app.close()


def receive(bench, task, consumer, body=None):
    acks = []
    (message,) = bench.messages()
    handler = job_strategy(task, bench.app, consumer.consumer)
    handler(message, body, lambda *_: acks.append(message), lambda *_: None, [])
    return acks


def test_a_job_task_is_received_by_it(task):
    assert type(task).Strategy == "denyut.tasks.strategy:job_strategy"


def test_a_message_for_later_is_acknowledged_and_no_request_is_made(bench, task, consumer, plain):
    sent = plain.send_task("t.later", countdown=60)
    assert len(receive(bench, task, consumer)) == 1
    assert (consumer.scheduled, consumer.requests) == ([], [])
    assert bench.record(sent.id).state == State.SCHEDULED


def test_a_message_for_now_goes_celerys_way(bench, task, consumer, plain):
    sent = plain.send_task("t.later")
    assert receive(bench, task, consumer) == []
    assert [request.id for request in consumer.requests] == [sent.id]


def test_what_the_store_does_not_take_waits_in_memory_as_without_denyut(
    bench, task, consumer, plain, monkeypatch
):
    monkeypatch.setattr("denyut.tasks.strategy.Shelf.take", lambda *_: False)
    plain.send_task("t.later", countdown=60)
    assert receive(bench, task, consumer) == []
    assert len(consumer.scheduled) == 1
