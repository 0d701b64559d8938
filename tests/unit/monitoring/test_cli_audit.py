"""``denyut audit``."""

from __future__ import annotations

import json

import pytest


@pytest.fixture
def run(make_desk, invoke, tmp_path):
    desk = make_desk(denyut_database_url=f"sqlite:///{tmp_path}/jobs.db")
    desk.pulse.database.create()
    for n in range(3):
        desk.queued(f"j{n}", 1)
        desk.pulse.jobs.cancel(f"j{n}", reason=f"why {n}", by="ann")
    return lambda *args: invoke(desk.pulse.app, "audit", *args)


def test_it_lists_what_was_done_newest_first_and_goes_on_at_its_cursor(run):
    first = run("--limit", "2")
    head, *rows = first.stdout.splitlines()
    assert head.split() == ["WHEN", "WHO", "ACTION", "JOB", "BEFORE", "AFTER", "OUTCOME", "REASON"]
    assert [row.split()[2:] for row in rows] == [
        ["ann", "cancel", f"j{n}", "QUEUED", "CANCELLED", "done", "why", str(n)] for n in (2, 1)
    ]
    rest = run("--cursor", first.stderr.split("--cursor ")[1].strip(), "--json")
    found = json.loads(rest.stdout)
    assert ([entry["job_id"] for entry in found["entries"]], found["cursor"]) == (["j0"], None)


def test_of_one_job(run):
    assert [row.split()[4] for row in run("--job", "j1").stdout.splitlines()[1:]] == ["j1"]
    assert run("--job", "nobody").stderr == "nothing was done by hand\n"


def test_a_wrong_option_is_exit_code_2_and_a_missing_store_is_1(run, cli):
    assert run("--job", "").exit_code == 2
    assert run("--cursor", "x").exit_code == 2
    done = cli("audit")
    assert (done.exit_code, "no audit without a job store" in done.stderr) == (1, True)
