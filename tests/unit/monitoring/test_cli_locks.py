"""``denyut locks``."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest

from denyut.errors import LockLost


@pytest.fixture
def lock(desk):
    lock = desk.pulse.lock("import:\x1b[31m", 60)
    lock.acquire()
    yield lock
    with suppress(LockLost):
        lock.release()
    desk.pulse.lock_keeper.stop()


def test_the_locks_that_are_held_are_listed(lock, cli):
    result = cli("locks", "list")
    assert result.exit_code == 0
    head, row = result.stdout.splitlines()
    assert head.split()[:3] == ["name", "fence", "process"]
    assert str(lock.fence) in row
    assert "\x1b" not in row


def test_the_list_as_json(lock, cli):
    [told] = json.loads(cli("locks", "list", "--json").stdout)
    assert (told["name"], told["fence"]) == (lock.name, lock.fence)


def test_nothing_held_is_an_empty_list(desk, cli):
    assert len(cli("locks", "list").stdout.splitlines()) == 1
    assert json.loads(cli("locks", "list", "--json").stdout) == []


def test_a_lock_is_released_by_its_name_and_fence(lock, cli):
    result = cli("locks", "release", lock.name, "--fence", str(lock.fence))
    assert result.exit_code == 0
    assert f"had fence {lock._hold.held.fence}" in result.stdout
    assert cli("locks", "list", "--json").stdout.strip() == "[]"


def test_the_answer_as_json(lock, cli):
    told = json.loads(cli("locks", "release", lock.name, "--fence", str(lock.fence), "--json").stdout)
    assert told == {"name": lock.name, "fence": lock._hold.held.fence, "released": True}


def test_another_fence_is_exit_code_1_and_releases_nothing(lock, cli):
    result = cli("locks", "release", lock.name, "--fence", "7")
    assert result.exit_code == 1
    assert "is not held with fence 7" in result.stderr
    lock.check()


def test_the_fence_must_be_named(lock, cli):
    assert cli("locks", "release", lock.name).exit_code == 2
