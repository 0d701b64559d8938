"""The doctor's look at the server: real ones, configured well and badly."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from redis import Redis
from support import free_port

from denyut.monitoring.check import Level
from denyut.monitoring.check_server import check_eviction, check_persistence, check_redis
from denyut.store import connect


@pytest.fixture
def restricted(valkey) -> Iterator:
    """Make a client of a user who may not use some commands."""
    made = []

    def make(*rules: str) -> Redis:
        valkey.execute_command("ACL", "SETUSER", "guest", "reset", "on", "nopass", "~*", "+@all", *rules)
        kwargs = valkey.connection_pool.connection_kwargs
        made.append(Redis(host=kwargs["host"], port=kwargs["port"], username="guest", password="any"))
        return made[-1]

    yield make
    for client in made:
        client.close()
    valkey.execute_command("ACL", "DELUSER", "guest")


@pytest.fixture
def configured(valkey) -> Iterator:
    """Change the server's configuration for one test."""
    before = {}

    def set_(name: str, value: str) -> None:
        before.setdefault(name, valkey.config_get(name)[name])
        valkey.config_set(name, value)

    yield set_
    for name, value in before.items():
        valkey.config_set(name, value)


def test_a_server_that_answers_is_named_with_its_version_and_distance(valkey):
    found = check_redis(None, valkey)
    assert found.level == Level.OK
    assert found.message.startswith("Valkey 9.")
    assert found.message.endswith(" ms away")


def test_a_server_that_cannot_be_reached_fails():
    client = connect(f"redis://127.0.0.1:{free_port()}/0", timeout=1, retries=0)
    found = check_redis(None, client)
    assert found.level == Level.FAIL
    assert "cannot be reached" in found.message
    assert "DENYUT_REDIS_URL" in found.hint


class Old(Redis):
    """A real client whose server says that it is old."""

    def info(self, section=None, **_):
        return {"redis_version": "6.0.16"}


class Slow(Redis):
    """A real client over a long line."""

    def ping(self, **kwargs):
        time.sleep(0.06)  # the long line
        return super().ping(**kwargs)


@pytest.mark.parametrize(
    ("kind", "level", "message", "hint"),
    [
        (Old, Level.FAIL, "Redis 6.0.16", "6.2 or newer"),
        (Slow, Level.WARN, "ms away", "every claim and beat"),
    ],
)
def test_an_old_server_fails_and_a_distant_one_is_a_warning(valkey, kind, level, message, hint):
    found = check_redis(None, kind(connection_pool=valkey.connection_pool))
    assert found.level == level
    assert message in found.message
    assert hint in found.hint


def test_a_server_that_does_not_tell_its_version_is_a_warning(restricted):
    found = check_redis(None, restricted("-info"))
    assert (found.level, "cannot be asked" in found.message) == (Level.WARN, True)


def test_a_server_that_evicts_fails(valkey, configured):
    assert check_eviction(None, valkey).level == Level.OK
    configured("maxmemory-policy", "allkeys-lru")
    found = check_eviction(None, valkey)
    assert found.level == Level.FAIL
    assert "allkeys-lru" in found.message


class Mute(Redis):
    """A real client of a managed server, whose INFO has no policy."""

    def info(self, section=None, **_):
        return {name: value for name, value in super().info(section).items() if name != "maxmemory_policy"}


def test_the_policy_is_asked_elsewhere_if_info_does_not_tell_it(valkey):
    assert check_eviction(None, Mute(connection_pool=valkey.connection_pool)).level == Level.OK


def test_a_policy_that_nobody_tells_is_a_warning_with_the_reason(restricted):
    client = Mute(connection_pool=restricted("-config").connection_pool)
    found = check_eviction(None, client)
    assert found.level == Level.WARN
    assert "config" in found.message.lower()
    assert "noeviction" in found.hint


def test_a_server_without_an_append_only_file_is_a_warning(valkey, restartable_valkey):
    assert check_persistence(None, valkey).level == Level.WARN
    with restartable_valkey.client() as client:
        assert check_persistence(None, client).level == Level.OK


class DiskFull(Redis):
    """A real client of a server whose disk is full."""

    def info(self, section=None, **_):
        return {**super().info(section), "aof_enabled": 1, "aof_last_write_status": "err"}


def test_an_append_only_file_that_cannot_be_written_fails(valkey):
    found = check_persistence(None, DiskFull(connection_pool=valkey.connection_pool))
    assert (found.level, "err" in found.message) == (Level.FAIL, True)
