"""A worker's book of messages in hand holds what kombu would write, whatever happens to the connection."""

from __future__ import annotations

import json

import pytest
from celery.contrib.testing.worker import start_worker
from kombu import Connection
from kombu.transport.redis import QoS
from redis.exceptions import ResponseError

from denyut.signals.unacked import QuickQoS, quicken


@pytest.fixture
def channels(pulse, valkey_server):
    """Make channels to the private server, each of a connection of its own."""
    connections = []

    def make(**transport_options):
        connection = Connection(valkey_server.url, transport_options=transport_options)
        connections.append(connection)
        return connection.channel()

    yield make
    for connection in connections:
        channel = connection.default_channel
        channel.do_restore = False
        connection.close()


@pytest.fixture
def waiting(pulse):
    """Put one message into a queue and return the queue's name."""
    app = pulse().app

    @app.task(name="t.noop", shared=False)
    def noop():
        pass

    noop.delay()
    return app.conf.task_default_queue


def book(valkey, prefix=""):
    entries = {tag: json.loads(text) for tag, text in valkey.hgetall(f"{prefix}unacked").items()}
    return entries, dict(valkey.zrange(f"{prefix}unacked_index", 0, -1, withscores=True))


def enter(channel, message, tag):
    channel.qos.append(message, tag)
    channel.qos._delivered.pop(tag)  # nothing is to be restored at the end of the test


def test_an_entry_is_what_kombu_would_write(channels, waiting, valkey):
    plain, quick = channels(), channels()
    quicken(quick)
    message = plain.basic_get(waiting, no_ack=True)
    enter(plain, message, "plain")
    enter(quick, message, "quick")
    entries, index = book(valkey)
    assert entries[b"quick"] == entries[b"plain"]
    assert index[b"quick"] == pytest.approx(index[b"plain"], abs=60)
    assert type(quick.qos) is QuickQoS
    assert type(plain.qos) is QoS


def test_an_acknowledged_message_is_crossed_out_and_its_place_is_free(channels, waiting, valkey):
    channel = channels()
    quicken(channel)
    channel.basic_qos(0, 1, False)
    message = channel.basic_get(waiting)
    assert len(book(valkey)[0]) == 1
    assert not channel.qos.can_consume()
    message.ack()
    assert book(valkey) == ({}, {})
    assert channel.qos.can_consume()


def test_the_prefix_of_the_brokers_keys_is_kept(channels, pulse, valkey):
    channel = channels(global_keyprefix="mine:")
    quicken(channel)
    channel.basic_publish(channel.prepare_message("x"), exchange="", routing_key="q")
    message = channel.basic_get("q")
    assert len(book(valkey, "mine:")[1]) == 1
    message.ack()
    assert book(valkey, "mine:") == ({}, {})


def test_what_is_in_hand_is_renewed_and_what_was_acknowledged_is_not_entered_again(channels, waiting, valkey):
    quick = channels()
    quicken(quick)
    message = quick.basic_get(waiting, no_ack=True)
    for number in range(1200):
        quick.qos.append(message, f"tag{number}")
    valkey.zadd("unacked_index", dict.fromkeys([f"tag{number}" for number in range(1200)], 1.0))
    valkey.zrem("unacked_index", "tag7")  # acknowledged just now, by another thread
    quick.qos.renew()
    _, index = book(valkey)
    assert len(index) == 1199
    assert min(index.values()) > 1_000_000
    quick.qos._delivered.clear()  # nothing is to be restored at the end of the test
    quick.qos.renew()


def test_a_connection_that_was_cut_loses_no_entry(channels, waiting, valkey):
    channel = channels()
    quicken(channel)
    message = channel.basic_get(waiting, no_ack=True)
    enter(channel, message, "first")
    for one in valkey.client_list():
        if int(one["id"]) != valkey.client_id():
            valkey.client_kill_filter(_id=one["id"])
    enter(channel, message, "second")
    channel.qos.ack("first")
    entries, index = book(valkey)
    assert entries.keys() == index.keys() == {b"second"}


def test_an_entry_that_the_server_refuses_is_an_error_as_with_kombu(channels, waiting, valkey):
    channel = channels()
    quicken(channel)
    message = channel.basic_get(waiting, no_ack=True)
    enter(channel, message, "first")
    valkey.config_set("maxmemory", "1")
    try:
        with pytest.raises(ResponseError):
            channel.qos.append(message, "second")
    finally:
        valkey.config_set("maxmemory", "0")
    assert "second" not in channel.qos._delivered
    assert book(valkey)[0].keys() == {b"first"}


def test_a_channel_of_another_kind_is_left_alone():
    with Connection("memory://") as connection:
        channel = connection.channel()
        kind = type(channel.qos)
        quicken(channel)
        assert type(channel.qos) is kind


def test_a_worker_keeps_its_book_in_the_quick_way_and_empties_it(pulse, valkey):
    made = pulse()
    seen = []

    @made.app.task(name="t.look", shared=False)
    def look():
        seen.append((type(worker.consumer.task_consumer.channel.qos), len(book(valkey)[0])))

    with start_worker(made.app, pool="solo", perform_ping_check=False, shutdown_timeout=30) as worker:
        look.apply_async().get(timeout=30)
        look.apply_async(acks_late=True).get(timeout=30)
    assert [kind for kind, _ in seen] == [QuickQoS] * 2
    assert book(valkey) == ({}, {})
