from __future__ import annotations

import os
import threading
import time

import pytest
from redis.connection import UnixDomainSocketConnection
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError
from support import wait_until

from denyut.store import Store, connect


@pytest.fixture
def store(valkey_server, valkey):
    made = Store(lambda: valkey_server.url, timeout=5)
    yield made
    made.close()


def in_child(work) -> bytes:
    """Run ``work`` in a forked child and return what it returned, as bytes."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(writer, str(work()).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return answer


def client_id_of(store: Store) -> int:
    return store.client.client_id()


@pytest.mark.parametrize("spelling", ["redis://", "valkey://"])
def test_a_server_is_reached_under_both_names(valkey_server, valkey, spelling):
    with connect(valkey_server.url.replace("redis://", spelling), timeout=5) as client:
        assert client.ping()


@pytest.mark.parametrize("spelling", ["unix://", "redis+socket://"])
def test_a_unix_socket_is_reached_under_both_names(valkey_server, valkey, spelling):
    with connect(valkey_server.unix_url.replace("unix://", spelling), timeout=5) as client:
        assert client.ping()
        assert client.connection_pool.connection_class is UnixDomainSocketConnection


def test_the_database_of_celerys_socket_address_is_used(valkey_server, valkey):
    address = valkey_server.unix_url.replace("unix://", "redis+socket://") + "?virtual_host=3"
    with connect(address, timeout=5) as client:
        client.set("a", 1)
        assert client.info("keyspace")["db3"]["keys"] == 1


def test_the_address_is_asked_for_when_the_client_is_first_used(valkey_server):
    asked = []
    store = Store(lambda: asked.append(1) or valkey_server.url, timeout=5)
    assert not asked
    assert store.client.ping()
    assert store.client is store.client
    assert asked == [1]
    store.close()


def test_a_closed_store_opens_again_when_used(store):
    first = store.client
    store.close()
    store.close()
    assert store.client is not first
    assert store.client.ping()


def test_threads_get_one_client(store):
    barrier, clients = threading.Barrier(8), []

    def use():
        barrier.wait()
        clients.append(store.client)

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, clients))) == 1


def test_a_thread_that_must_not_share_gets_its_own(store):
    mine = store.fresh()
    assert mine is not store.client
    assert mine.ping()
    mine.close()


def test_a_forked_child_has_another_connection_and_the_parents_goes_on(store):
    parent = store.client.client_id()
    child = int(in_child(lambda: client_id_of(store)))
    assert child != parent
    assert store.client.client_id() == parent


def test_a_child_forked_while_another_thread_holds_the_lock_gets_its_client(store, valkey_server):
    quick = Store(lambda: valkey_server.url, timeout=0.2)
    held, release = threading.Event(), threading.Event()

    def hold():
        with quick._lock:
            held.set()
            release.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        assert int(in_child(lambda: client_id_of(quick)))
    finally:
        release.set()
        thread.join()


def test_a_command_is_tried_again_while_the_server_restarts(restartable_valkey):
    with connect(restartable_valkey.url, timeout=2, retries=8) as client:
        client.set("a", 1)
        restartable_valkey.kill()
        answers = []
        thread = threading.Thread(target=lambda: answers.append(client.get("a")))
        thread.start()
        restartable_valkey.start()  # here: a server ends with the thread that started it
        thread.join()
        assert answers == [b"1"]


def test_a_server_that_is_away_is_an_error_after_the_retries(restartable_valkey):
    with connect(restartable_valkey.url, timeout=1, retries=0) as client:
        restartable_valkey.kill()
        with pytest.raises(RedisConnectionError):
            client.ping()


def test_a_server_that_does_not_answer_is_an_error_after_the_timeout(restartable_valkey):
    with connect(restartable_valkey.url, timeout=0.3, retries=0) as client:
        client.ping()
        restartable_valkey.pause()
        started = time.monotonic()
        with pytest.raises(RedisTimeoutError):
            client.ping()
        assert time.monotonic() - started < 5
        restartable_valkey.resume()


def test_a_client_works_again_after_an_outage(restartable_valkey):
    with connect(restartable_valkey.url, timeout=1, retries=0) as client:
        client.set("a", 1)
        restartable_valkey.stop()
        with pytest.raises(RedisError):
            client.get("a")
        restartable_valkey.start()
        assert wait_until(lambda: client.get("a"), what="the value") == b"1"


def test_the_time_is_that_of_redis(valkey_server):
    store = Store(lambda: valkey_server.url, timeout=5.0)
    before = store.now_us()
    assert before <= store.now_us()
    assert abs(before / 1e6 - time.time()) < 60
    store.close()


def test_as_many_threads_as_there_are_get_a_connection_each(valkey_server):
    with connect(valkey_server.url, timeout=5.0) as client:
        in_use = [client.borrow() for _ in range(300)]
        assert client.ping()
        for connection in in_use:
            client.give_back(connection)
