"""``denyut jobs dead`` and ``denyut jobs retry``."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from denyut.monitoring.cli import denyut


@pytest.fixture
def die(desk):
    """Make jobs that are dead letters, as the scripts would."""

    def make(job_id, ago=10.0, task="t.work", **fields):
        headers = {"id": job_id, "task": task, "argsrepr": "(1,)", "root_id": job_id}
        message = json.dumps(["[[1], {}, {}]", "application/json", "utf-8", headers, {}, "", "q"])
        spent = {"budget": "failures", "reason": "not retried: KeyError", "retention": 3600, "msg": message}
        fields = {"error": '["KeyError", "x"]', "traceback": "Trace", **spent, **fields}
        desk.ended(job_id, ago, state="FAILED", task=task, **fields)
        desk.index("dead", job_id, desk.ago(ago))

    return make


def test_the_list_says_who_died_of_what(cli, die):
    die("one", 10)
    die("two", 5, reason="lost 4 workers (max_crashes=3)", budget="crashes")
    head, first, second = cli("jobs", "dead", "list").stdout.splitlines()
    assert head.split() == ["ID", "TASK", "BUDGET", "REASON", "ATTEMPTS", "DIED"]
    assert first.split()[:3] == ["two", "t.work", "crashes"]
    assert "not retried: KeyError" in second


def test_the_list_goes_on_at_its_cursor_and_is_filtered_by_task(cli, die):
    for n in range(3):
        die(f"job-{n}", n + 1, task="t.a" if n else "t.b")
    result = cli("jobs", "dead", "list", "--limit", "2")
    cursor = result.stderr.split("--cursor ")[1].strip()
    rest = json.loads(cli("jobs", "dead", "list", "--cursor", cursor, "--json").stdout)
    assert ([letter["id"] for letter in rest["letters"]], rest["cursor"]) == (["job-2"], None)
    only = json.loads(cli("jobs", "dead", "list", "--task", "t.b", "--json").stdout)
    assert [letter["id"] for letter in only["letters"]] == ["job-0"]
    assert cli("jobs", "dead", "list", "--task", "none").stderr == "no dead letters\n"


def test_one_letter_is_shown_with_arguments_and_tracebacks(cli, die):
    die("one")
    text = cli("jobs", "dead", "show", "one").stdout
    assert "not retried: KeyError" in text
    assert "    Trace" in text
    data = json.loads(cli("jobs", "dead", "show", "one", "--json").stdout)
    assert (data["args"], data["errors"][0]["traceback"]) == ("(1,)", "Trace")


def test_what_is_no_letter_says_what_it_is(desk, cli):
    desk.queued("j", 1)
    result = cli("jobs", "dead", "show", "j")
    assert (result.exit_code, result.stderr) == (1, "Error: job j is no dead letter: it is queued\n")


def test_a_retried_letter_says_what_it_became_and_leaves_the_list(cli, desk, die):
    die("one")
    result = cli("jobs", "dead", "retry", "one")
    new = desk.pulse.jobs.get("one", fresh=True).record.retried_as
    assert (result.exit_code, result.stdout) == (0, f"one is retried as {new}\n")
    assert desk.pulse.jobs.dead().letters == []


def test_all_of_one_task_are_retried_and_one_that_cannot_be_does_not_hinder_the_others(cli, desk, die):
    for n in range(3):
        die(f"job-{n}", n + 1)
    die("broken", 0.5, msg="no json")
    die("other", 1, task="t.other")
    result = cli("jobs", "dead", "retry", "--all", "--task", "t.work", "--json")
    data = json.loads(result.stdout)
    assert result.exit_code == 1
    assert set(data["retried"]) == {"job-0", "job-1", "job-2"}
    assert set(data["refused"]) == {"broken"}
    assert "cannot be read" in result.stderr
    assert {letter.id for letter in desk.pulse.jobs.dead().letters} == {"broken", "other"}


def test_retrying_nothing_says_so(cli):
    result = cli("jobs", "dead", "retry", "--all")
    assert (result.exit_code, result.stderr) == (0, "no dead letters\n")


@pytest.mark.parametrize("args", [(), ("j", "--all"), ("j", "--task", "t")])
def test_it_must_be_said_which_are_to_be_retried(cli, args):
    result = cli("jobs", "dead", "retry", *args)
    assert result.exit_code == 2
    assert "name the jobs, or say --all" in result.stderr


def test_retrying_a_job_by_hand_twice_is_an_error_that_names_the_new_one(cli, desk, die):
    die("one")
    assert cli("jobs", "retry", "one").exit_code == 0
    new = desk.pulse.jobs.get("one", fresh=True).record.retried_as
    result = cli("jobs", "retry", "one")
    assert result.exit_code == 1
    assert f"retried already, as job {new}" in result.stderr
    forced = json.loads(cli("jobs", "retry", "one", "--force", "--json").stdout)
    assert forced["retried"]["one"] != new


def test_a_purge_asks_first_and_does_nothing_without_a_yes(cli, desk, die, invoke):
    from celery.bin.base import CLIContext

    die("one")
    runner, context = CliRunner(), CLIContext(desk.pulse.app, no_color=True, workdir=None)
    refused = runner.invoke(denyut, ["jobs", "dead", "purge"], obj=context, input="n\n")
    assert refused.exit_code == 1
    assert "Purge all dead letters?" in refused.stderr
    assert len(desk.pulse.jobs.dead().letters) == 1
    agreed = runner.invoke(denyut, ["jobs", "dead", "purge", "one"], obj=context, input="y\n")
    assert "purged 1 dead letter(s)" in agreed.stdout
    assert desk.pulse.jobs.dead().letters == []


def test_a_purge_takes_only_what_fits(cli, desk, die):
    die("old", 500)
    die("young", 5)
    die("other", 500, task="t.other")
    args = ("jobs", "dead", "purge", "--older-than", "100", "--task", "t.work", "--yes", "--json")
    assert json.loads(cli(*args).stdout) == {"purged": 1}
    assert {letter.id for letter in desk.pulse.jobs.dead().letters} == {"young", "other"}
