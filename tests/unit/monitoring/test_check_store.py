from __future__ import annotations

import pytest

from denyut.monitoring.check import Level
from denyut.monitoring.check_store import check_store


@pytest.fixture
def stored(make_desk):
    return make_desk(denyut_database_url="postgresql+psycopg://me:s3cret@127.0.0.1:1/jobs")


def mark(desk, ago):
    desk.client.zadd(desk.pulse.keys.partition(0).outbox, {"j": desk.ago(ago)})


def test_without_a_store_there_is_nothing_to_say(desk):
    assert check_store(desk.pulse, desk.client).level == Level.OK


def test_a_change_may_wait_for_some_seconds(stored):
    mark(stored, 1)
    found = check_store(stored.pulse, stored.client)
    assert found.level == Level.OK
    assert "1 job(s) wait" in found.message


def test_a_change_that_waits_for_long_is_a_warning(stored):
    mark(stored, 60)
    found = check_store(stored.pulse, stored.client)
    assert found.level == Level.WARN
    assert "60." in found.message


def test_a_store_that_is_down_is_told_with_its_error_and_without_its_password(stored):
    mark(stored, 5)
    stored.pulse.saving.failed(stored.client, OSError("no entry for me:s3cret@127.0.0.1"))
    found = check_store(stored.pulse, stored.client)
    assert found.level == Level.FAIL
    assert "no entry for me:***" in found.message
    assert "1 job(s) wait" in found.message
    assert "s3cret" not in found.message


def test_jobs_that_the_store_refuses_are_told_with_why(stored):
    stored.client.hset(stored.pulse.keys.partition(3).refused, "odd", "DataError: too long")
    found = check_store(stored.pulse, stored.client)
    assert found.level == Level.WARN
    assert "such as odd: DataError: too long" in found.message
