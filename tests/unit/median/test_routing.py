from __future__ import annotations

from typing import Any
from zlib import crc32

import pytest
from celery import Celery

from denyut import Denyut
from denyut.median.routing import APPLY_TASK, declare_queues, median_queue, shard_of
from denyut.scripts import slot_tag


def queue_of(app: Any, name: str, args: Any = (), kwargs: Any = None) -> str:
    return str(app.amqp.router.route({}, name, args, kwargs or {})["queue"].name)


def test_a_stream_always_has_the_same_shard() -> None:
    assert shard_of("orders", 16) == crc32(b"orders") % 16
    assert {shard_of(f"s{i}", 16) for i in range(500)} == set(range(16))
    assert shard_of("größe", 16) == crc32("größe".encode()) % 16


def test_the_apply_task_goes_to_the_queue_of_its_stream(pulse: Any) -> None:
    app = pulse(denyut_median_shards=4, denyut_median_queue="mq").app
    expected = f"mq.{crc32(b'orders') % 4}"
    assert queue_of(app, APPLY_TASK, ("orders", "...")) == expected
    assert queue_of(app, APPLY_TASK, (), {"stream": "orders", "batch": "..."}) == expected


def test_other_tasks_go_where_the_app_sends_them(pulse: Any) -> None:
    made = pulse(task_routes={"mine": {"queue": "special"}})
    assert queue_of(made.app, "mine") == "special"
    assert queue_of(made.app, "other") == made.app.conf.task_default_queue


@pytest.mark.parametrize("routes", [None, {"a": {"queue": "x"}}, [{"a": {"queue": "x"}}], ({"a": "x"},)])
def test_the_route_comes_before_whatever_routes_the_app_has(pulse: Any, routes: Any) -> None:
    app = pulse(task_routes=routes).app
    assert queue_of(app, APPLY_TASK, ("s", "")).startswith("median.")
    assert queue_of(app, "a") == (app.conf.task_default_queue if routes is None else "x")


def test_the_route_is_there_also_if_the_app_was_configured_first(valkey_server: Any) -> None:
    app = Celery("configured", set_as_current=False, broker=valkey_server.url)
    assert app.conf.task_default_queue  # reads the configuration
    Denyut(app)
    assert queue_of(app, APPLY_TASK, ("s", "")).startswith("median.")
    app.close()


def test_a_message_without_a_stream_is_left_to_the_default_queue(pulse: Any) -> None:
    app = pulse().app
    assert queue_of(app, APPLY_TASK, (7, "")) == app.conf.task_default_queue


def test_the_queue_is_the_one_that_celery_makes_for_its_name(pulse: Any) -> None:
    made = pulse()
    ours, celerys = median_queue(made, 3), made.app.amqp.queues["median.3"]
    assert (ours.name, ours.exchange, ours.routing_key) == (
        celerys.name,
        celerys.exchange,
        celerys.routing_key,
    )


def test_declared_queues_are_known_but_consumed_only_when_asked_for(pulse: Any) -> None:
    made = pulse(denyut_median_shards=4, task_create_missing_queues=False)
    queues = made.app.amqp.queues
    before = set(queues.consume_from)
    declare_queues(made)
    assert set(queues.consume_from) == before
    queues.select(["median.0", "median.3"])
    assert set(queues.consume_from) == {"median.0", "median.3"}


def test_all_keys_of_a_stream_and_its_shard_share_one_slot(pulse: Any) -> None:
    keys = pulse().keys
    stream = keys.stream("orders", 5)
    names = [stream.lower, stream.upper, stream.state, keys.shard_streams(5), keys.shard_counters(5)]
    assert slot_tag(names) == "m5"
