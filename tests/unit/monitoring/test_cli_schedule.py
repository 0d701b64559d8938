"""``denyut jobs reschedule``."""

from __future__ import annotations

import json

import pytest


@pytest.mark.parametrize(
    ("amount", "told"),
    [
        ("90", "1.5 min"),
        ("90s", "1.5 min"),
        ("10m", "10.0 min"),
        ("2h", "2.0 h"),
        ("1.5d", "1.5 d"),
    ],
)
def test_a_job_gets_another_time_from_now(desk, cli, amount, told):
    desk.scheduled("j", 60, version=1)
    result = cli("jobs", "reschedule", "j", "--in", amount)
    assert result.exit_code == 0
    assert result.stdout == f"job j is due in {told}\n"


def test_a_job_gets_a_time_of_day_also_without_a_zone(desk, cli):
    desk.scheduled("j", 60)
    for when in ("2100-01-01T00:00:00+00:00", "2100-01-01T12:00"):
        assert cli("jobs", "reschedule", "j", "--at", when).exit_code == 0
        assert desk.pulse.jobs.get("j", fresh=True).record.due > 4_000_000_000 * 10**6


def test_the_answer_as_json(desk, cli):
    desk.scheduled("j", 60)
    data = json.loads(cli("jobs", "reschedule", "j", "--in", "5m", "--json").stdout)
    assert (data["id"], data["changed"], data["state"], data["expires"]) == ("j", True, "SCHEDULED", None)
    assert data["due"] == desk.pulse.jobs.get("j", fresh=True).record.due


def test_a_job_that_expires_before_its_new_time_is_told(desk, cli):
    desk.scheduled("j", 60, expires=desk.ago(-90))
    result = cli("jobs", "reschedule", "j", "--in", "1h")
    assert result.exit_code == 0
    assert "but it expires in 1.5 min: it will not run" in result.stderr


def test_a_job_that_does_not_wait_is_exit_code_1_and_unchanged(desk, cli):
    desk.running("j", 3)
    result = cli("jobs", "reschedule", "j", "--in", "5m")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "Error: job j was not changed: it is RUNNING; only one that waits has a time\n"
    assert "there is no such job" in cli("jobs", "reschedule", "nobody", "--in", "5m").stderr


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("j",), "say either --in or --at"),
        (("j", "--in", "5m", "--at", "2100-01-01"), "say either --in or --at"),
        (("j", "--in", "soon"), "must be a time such as"),
        (("j", "--in", "5 weeks"), "must be a time such as"),
        (("j", "--at", "noon"), "must be a time such as"),
        (("", "--in", "5m"), "must not be empty"),
    ],
)
def test_a_wrong_option_is_exit_code_2(cli, args, says):
    result = cli("jobs", "reschedule", *args)
    assert result.exit_code == 2
    assert says in result.stderr


def test_the_list_of_scheduled_jobs_shows_when_they_are_due(desk, cli):
    desk.scheduled("later", 7200)
    desk.scheduled("soon", 120.2)
    desk.running("runs", 3, due=desk.ago(100))
    lines = cli("jobs", "list", "--state", "scheduled").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["ID", "later", "soon"]
    assert lines[0].split()[-1] == "DUE"
    assert lines[2].endswith("in 2.0 min")
    assert cli("jobs", "list", "--state", "running").stdout.splitlines()[1].split()[-1] == "-"
