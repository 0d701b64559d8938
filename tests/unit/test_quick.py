"""The quick way gives what the usual way gives, and leaves every trouble to it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.connection import PythonRespSerializer
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError
from support import wait_until

from denyut.quick import QuickRedis, packed
from denyut.scripts import Script, run_all
from denyut.states import State
from denyut.store import connect

ADD = Script("denyut.tasks", "close_key")


@pytest.fixture
def client(valkey, valkey_server):
    with connect(valkey_server.url, timeout=2.0) as client:
        yield client


@given(st.lists(st.one_of(st.text(), st.binary(), st.integers(), st.floats(allow_nan=False)), min_size=1))
def test_a_command_is_packed_as_redis_py_packs_it(arguments):
    encode = QuickRedis().connection_pool.get_encoder().encode
    usual = b"".join(PythonRespSerializer(6000, encode).pack("SET", *arguments))
    assert packed(["SET", *arguments]) == usual


def test_a_member_of_an_enumeration_is_packed_as_its_text():
    assert packed([State.RUNNING]) == b"*1\r\n$7\r\nRUNNING\r\n"


def test_replies_come_in_order_with_errors_among_them(client):
    commands = [["SET", "a", "1"], ["LPUSH", "a", "x"], ["INCR", "a"], ["GET", "none"]]
    replies = client.quick([packed(command) for command in commands])
    assert replies[0] in (b"OK", True)
    assert isinstance(replies[1], ResponseError)
    assert replies[2:] == [2, None]


def test_an_error_among_the_replies_keeps_nothing_of_its_callers_alive(client):
    [error] = client.quick([packed(("NOSUCHCOMMAND",))])
    assert isinstance(error, ResponseError)
    assert error.__traceback__ is None


def test_a_connection_is_kept_and_used_again(client):
    numbers = {client.quick([packed(["CLIENT", "ID"])])[0] for _ in range(5)}
    assert len(numbers) == 1


def test_threads_never_share_a_connection(client):
    def echo(n):
        return client.quick([packed(["ECHO", f"{n}"])])[0] == f"{n}".encode()

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(echo, range(2000)))


def test_a_connection_that_the_server_has_closed_is_opened_again_by_the_usual_way(client, valkey):
    assert ADD(client, ["{x}k"], ["job", 0]) == 0
    valkey.client_kill_filter(_type="normal", skipme=True)
    assert ADD(client, ["{x}k"], ["job", 0]) == 0
    assert run_all(client, [ADD.with_(["{x}k"], ["job", 0])] * 3) == [0, 0, 0]


def test_a_late_reply_is_never_taken_for_that_of_the_next_command(restartable_valkey):
    with connect(restartable_valkey.url, timeout=0.3, retries=0) as client:
        client.quick([packed(["SET", "a", "old"])])
        restartable_valkey.pause()
        with pytest.raises(RedisTimeoutError):
            client.quick([packed(["GET", "a"])])
        restartable_valkey.resume()
        assert client.quick([packed(["ECHO", "b"])]) == [b"b"]


def test_without_a_server_it_fails_as_the_usual_way_does(restartable_valkey):
    with connect(restartable_valkey.url, timeout=0.5, retries=0) as client:
        client.quick([packed(["PING"])])
        restartable_valkey.kill()
        with pytest.raises(RedisConnectionError):
            client.quick([packed(["PING"])])
        with pytest.raises(RedisConnectionError):
            ADD(client, ["{x}k"], ["job", 0])
        restartable_valkey.start()
        assert ADD(client, ["{x}k"], ["job", 0]) == 0


def test_closing_closes_the_connections_at_hand(client, valkey):
    name = f"quick-{id(client)}"
    client.quick([packed(["CLIENT", "SETNAME", name])])
    client.close()
    wait_until(lambda: name not in {each["name"] for each in valkey.client_list()})
