"""What kombu would push is caught as it is, and only where the script can push it."""

from __future__ import annotations

import pytest
from kombu import Connection

from denyut.tasks.wire import Catcher, address


@pytest.fixture
def catch(make_bench):
    def catch(**conf):
        bench = make_bench(**conf)
        catcher = Catcher(bench.pulse)
        options = {"headers": {"id": "x", "task": "t"}, "serializer": "json", "retry": False}
        with bench.app.producer_or_acquire() as producer:
            assert catcher.can_catch(producer)
            wire = catcher.catch(producer, ((1,), {}, {}), options | {"routing_key": "a", "priority": 7})
        return bench, wire

    return catch


def test_a_caught_message_is_as_kombu_would_have_pushed_it(catch, valkey):
    bench, wire = catch(broker_transport_options={"priority_steps": [0, 5], "sep": ":"})
    assert wire.lists == ["a:5"]
    assert wire.envelope.routing_key == "a"
    assert wire.envelope.properties["priority"] == 7
    assert wire.envelope.decode(["json"]) == ([1], {}, {})
    assert valkey.llen("a:5") == 0
    valkey.lpush("a:0", wire.payload)
    options = {"priority_steps": [0], "sep": ":"}
    with Connection(bench.app.conf.broker_url, transport_options=options) as connection:
        message = connection.channel().basic_get("a:0")
    assert message.payload == [[1], {}, {}]


def test_the_prefix_of_the_transport_is_part_of_the_list(catch):
    _, wire = catch(broker_transport_options={"global_keyprefix": "shop:"})
    assert wire.lists == ["shop:a\x06\x167"] or wire.lists[0].startswith("shop:a")


def test_the_channel_publishes_as_before_afterwards(catch, valkey):
    bench, _ = catch()
    with bench.app.producer_or_acquire() as producer:
        producer.publish("x", routing_key="b")
    assert valkey.llen("b") == 1


@pytest.mark.parametrize("url", ["memory://", "{other_database}"])
def test_a_broker_elsewhere_is_not_caught(make_bench, valkey_server, url):
    broker = url.format(other_database=valkey_server.url.removesuffix("/0") + "/1")
    bench = make_bench(broker_url=broker, denyut_redis_url=valkey_server.url)
    with bench.app.producer_or_acquire() as producer:
        assert not Catcher(bench.pulse).can_catch(producer)


def test_a_fanout_exchange_is_left_to_kombu(make_bench):
    from kombu import Exchange

    bench = make_bench()
    options = {"headers": {"id": "x"}, "exchange": Exchange("all", "fanout"), "serializer": "json"}
    with bench.app.producer_or_acquire() as producer:
        producer.declare()
        options["declare"] = [options["exchange"]]
        assert Catcher(bench.pulse).catch(producer, "x", options) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"host": "a", "port": 1, "db": 0}, {"host": "a", "port": 1, "db": 2}),
        ({"host": "a", "port": 1}, {"host": "a", "port": 2}),
        ({"path": "/a"}, {"path": "/b"}),
        ({"path": "/a"}, {"host": "a"}),
        ({"host": "a", "username": "x"}, {"host": "a", "username": "y"}),
    ],
)
def test_servers_databases_and_users_are_told_apart(one, other):
    assert address(one) != address(other)


def test_defaults_are_the_same_as_what_they_stand_for():
    assert address({}) == address({"host": "localhost", "port": 6379, "db": 0, "username": ""})
