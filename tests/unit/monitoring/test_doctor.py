"""All checks together, also where Redis does not play along."""

from __future__ import annotations

from redis.exceptions import TimeoutError as RedisTimeoutError
from support import free_port

from denyut.monitoring import doctor
from denyut.monitoring.check import Check, Level
from denyut.monitoring.doctor import CHECKS, examine


def test_a_healthy_store_is_told_so_check_by_check(desk):
    found = {check.name: check.level for check in examine(desk.pulse)}
    assert list(found) == list(CHECKS)
    assert found == {**dict.fromkeys(CHECKS, "ok"), "persistence": "warn", "workers": "warn"}


def test_each_check_is_filed_under_its_own_name(desk):
    assert [check(desk.pulse, desk.client).name for check in CHECKS.values()] == list(CHECKS)


def test_without_redis_there_is_one_thing_to_say(pulse):
    (only,) = examine(pulse(url=f"redis://127.0.0.1:{free_port()}/0"))
    assert (only.name, only.level) == ("redis", Level.FAIL)


def test_a_command_that_redis_forbids_is_a_warning_and_the_other_checks_go_on(desk):
    desk.client.execute_command(
        "ACL", "SETUSER", "guest", "reset", "on", ">pw", "~*", "+@all", "-info", "-config"
    )
    try:
        url = desk.pulse.redis_url().replace("redis://", "redis://guest:pw@")
        desk.pulse.__dict__["store"] = type(desk.pulse.store)(lambda: url, timeout=5.0)
        found = {check.name: check.level for check in examine(desk.pulse)}
    finally:
        desk.client.execute_command("ACL", "DELUSER", "guest")
    assert found["redis"] == found["eviction"] == found["persistence"] == Level.WARN
    assert found["partitions"] == found["audit"] == Level.OK


def test_a_redis_that_goes_away_midway_fails_what_could_not_be_checked(desk, monkeypatch):
    def away(_pulse, _client) -> Check:
        raise RedisTimeoutError("no answer")

    monkeypatch.setattr(doctor, "CHECKS", {**CHECKS, "leases": away})
    found = {check.name: check for check in examine(desk.pulse)}
    assert found["leases"].level == Level.FAIL
    assert "no answer" in found["leases"].message
    assert found["audit"].level == Level.OK
