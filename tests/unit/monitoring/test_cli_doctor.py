"""``denyut doctor``."""

from __future__ import annotations

import json

from support import free_port


def test_a_store_that_is_well_is_exit_code_0_with_a_line_for_each_check(cli):
    result = cli("doctor")
    assert result.exit_code == 0
    lines = [line.split() for line in result.stdout.splitlines() if not line.startswith(" ")]
    assert ["ok", "redis"] in [line[:2] for line in lines]
    assert {line[0] for line in lines} == {"ok", "warn"}
    assert "-> set appendonly to yes" in result.stdout


def test_a_failed_check_is_exit_code_1(desk, cli):
    desk.index("leases", "j", desk.ago(60))
    result = cli("doctor")
    assert result.exit_code == 1
    assert "fail  leases" in result.stdout


def test_json_has_name_level_message_and_hint(desk, cli):
    desk.index("leases", "j", desk.ago(60))
    result = cli("doctor", "--json")
    assert result.exit_code == 1
    found = {check["name"]: check for check in json.loads(result.stdout)}
    assert found["leases"]["level"] == "fail"
    assert "celery" not in found["redis"]["hint"]
    assert found["leases"]["hint"]


def test_a_redis_that_is_away_is_a_failed_check(pulse, invoke):
    result = invoke(pulse(url=f"redis://127.0.0.1:{free_port()}/0").app, "doctor")
    assert result.exit_code == 1
    assert result.stdout.startswith("fail  redis  it cannot be reached")
