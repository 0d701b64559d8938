"""``denyut jobs``."""

from __future__ import annotations

import json

import pytest

from denyut.database.save import save_gone
from denyut.tasks.pages import parse_cursor


def test_showing_a_job_tells_what_is_known(desk, cli):
    desk.running("j", 3)
    desk.telemetry("j", stage="LOADING")
    result = cli("jobs", "show", "j")
    assert result.exit_code == 0
    assert ["verdict", "running"] in [line.split() for line in result.stdout.splitlines()]
    assert ["stage", "LOADING"] in [line.split() for line in result.stdout.splitlines()]


def test_showing_a_job_as_json(desk, cli):
    desk.running("j", 3)
    data = json.loads(cli("jobs", "show", "j", "--json").stdout)
    assert (data["id"], data["verdict"], data["record"]["task"]) == ("j", "running", "t.work")


@pytest.mark.parametrize("verb", ["show", "watch"])
def test_an_unknown_job_is_exit_code_1_and_says_so(desk, cli, verb):
    result = cli("jobs", verb, "nobody")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "Error: no job has the id nobody, no job was ever kept in its partition\n"
    desk.client.set(desk.pulse.keys.partition(desk.pulse.keys.partition_of("nobody")).marker, 1)
    assert "or its retention is over" in cli("jobs", verb, "nobody").stderr


def test_a_job_that_is_gone_is_told_with_how_it_ended(make_desk, invoke, tmp_path):
    pulse = make_desk(denyut_database_url=f"sqlite:///{tmp_path}/jobs.db").pulse
    pulse.database.create()
    row = {"prefix": pulse.settings.prefix, "id": "j", "state": "DEAD", "finished_at": 1, "gone_at": 2}
    with pulse.database.begin() as connection:
        save_gone(connection, [row])
    for verb in ("show", "watch"):
        done = invoke(pulse.app, "jobs", verb, "j")
        assert done.exit_code == 1
        assert "job j is gone: it was DEAD, and its retention ended at 1970-01-01T00:00:00Z" in done.stderr


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("show", ""), "must not be empty"),
        (("show", "x" * 256), "at most 255"),
        (("show",), "Missing argument"),
        (("list", "--state", "BROKEN"), "'BROKEN' is not one of"),
        (("list", "--limit", "0"), "--limit"),
        (("list", "--cursor", "x"), "--cursor"),
        (("list", "--since", "soon"), "must be how long ago"),
        (("list", "--since", "1h", "--until", "2h"), "since must be the earlier one"),
        (("watch", "j", "--timeout", "-1"), "--timeout"),
        (("dance",), "No such command"),
    ],
)
def test_a_wrong_option_is_exit_code_2(cli, args, says):
    result = cli("jobs", *args)
    assert result.exit_code == 2
    assert says in result.stderr


def test_a_list_is_aligned_and_goes_on_at_its_cursor(desk, cli):
    for n in range(3):
        desk.ended(f"job-{n}", ago=n, state="FAILED")
    desk.queued("other", 5)
    result = cli("jobs", "list", "--state", "failed", "--task", "t.work", "--limit", "2")
    head, *rows = result.stdout.splitlines()
    assert head.split()[:3] == ["ID", "TASK", "VERDICT"]
    assert [row.split()[0] for row in rows] == ["job-0", "job-1"]
    assert {row.index("t.work") for row in rows} == {head.index("TASK")}
    cursor = result.stderr.split("--cursor ")[1].strip()
    rest = cli("jobs", "list", "--state", "FAILED", "--cursor", cursor)
    assert [row.split()[0] for row in rest.stdout.splitlines()[1:]] == ["job-2"]
    assert rest.stderr == ""


def test_a_list_of_nothing_says_so_and_is_no_error(cli):
    result = cli("jobs", "list")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "no jobs\n")


def test_a_list_as_json_has_jobs_and_cursor(desk, cli):
    for n in range(2):
        desk.queued(f"job-{n}", ago=n)
    data = json.loads(cli("jobs", "list", "--limit", "1", "--json").stdout)
    assert ([job["id"] for job in data["jobs"]], parse_cursor(data["cursor"]).job_id) == (["job-0"], "job-0")
    assert json.loads(cli("jobs", "list", "--task", "none", "--json").stdout) == {
        "jobs": [],
        "cursor": None,
        "complete": True,
    }


def test_watching_ends_with_the_job(desk, cli):
    desk.ended("j", 1)
    assert cli("jobs", "watch", "j").stdout == "completed   attempt 1\n"


def test_watching_as_json_is_one_document_a_line(desk, cli):
    desk.queued("j", 1)
    result = cli("jobs", "watch", "j", "--timeout", "0.01", "--json")
    assert [json.loads(line)["verdict"] for line in result.stdout.splitlines()] == ["queued"]


def test_a_task_cannot_write_to_the_terminal_of_who_looks(desk, cli):
    desk.running("j", 1)
    desk.telemetry("j", stage="\x1b[2Jfake\nline")
    for verb in (("show", "j"), ("list",), ("watch", "j", "--timeout", "0")):
        text = cli("jobs", *verb).stdout
        assert "\x1b" not in text
        assert "fake line" in text
