from __future__ import annotations

import time

import pytest
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError
from support import free_port

from denyut.tasks.depth import queue_depth, queue_depths

AWAY = (OperationalError, RedisError, OSError)


def test_it_counts_ready_messages_of_all_priorities(bench):
    @bench.task(name="t.noop")
    def noop():
        pass

    for priority in (0, 3, 6, 9):
        noop.apply_async(priority=priority)
    assert queue_depth(bench.app, bench.app.conf.task_default_queue) == 4


def test_a_queue_that_does_not_exist_is_empty(bench):
    assert queue_depth(bench.app, "nowhere") == 0


def test_many_queues_are_asked_at_once(bench):
    bench.app.send_task("t", queue="busy")
    assert queue_depths(bench.app, ["nowhere", "busy", "busy"]) == {"nowhere": 0, "busy": 1}


def test_the_prefix_of_a_shared_broker_is_respected(make_bench):
    app = make_bench(broker_transport_options={"global_keyprefix": "shop:"}).app
    app.send_task("t", queue="busy")
    assert queue_depth(app, "busy") == 1


def test_a_broker_that_is_not_redis_is_asked_too(make_bench, valkey_server):
    app = make_bench(broker_url="memory://", denyut_redis_url=valkey_server.url).app
    app.send_task("t", queue="busy")
    assert queue_depths(app, ["a", "busy", "b"]) == {"a": 0, "busy": 1, "b": 0}


def test_a_broker_that_refuses_is_an_error_at_once(make_bench):
    app = make_bench(broker_url=f"redis://127.0.0.1:{free_port()}/0").app
    begin = time.monotonic()
    with pytest.raises(AWAY):
        queue_depth(app, "q")
    assert time.monotonic() - begin < 2


def test_a_broker_that_does_not_answer_is_not_waited_for_for_long(make_bench, restartable_valkey):
    app = make_bench(broker_url=restartable_valkey.url).app
    restartable_valkey.pause()
    try:
        begin = time.monotonic()
        with pytest.raises(AWAY):
            queue_depths(app, ["q"], timeout=0.2)
        assert time.monotonic() - begin < 4
    finally:
        restartable_valkey.resume()
