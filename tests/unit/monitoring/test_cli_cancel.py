"""``denyut jobs cancel`` and ``denyut jobs release``."""

from __future__ import annotations

import json


def test_cancel_says_what_became_of_each_job(desk, cli):
    desk.queued("waits", 5)
    desk.running("runs", 5)
    desk.ended("over", 5)
    done = cli("jobs", "cancel", "waits", "runs", "over", "--reason", "enough")
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        "job waits is cancelled",
        "job runs is running; it is told to stop",
        "job over had already ended as COMPLETED; nothing was changed",
    ]
    assert desk.pulse.jobs.get("waits", fresh=True).error[1].endswith(": enough")


def test_cancel_as_json_is_a_line_for_each_job(desk, cli):
    desk.queued("waits", 5)
    done = cli("jobs", "cancel", "waits", "--json")
    assert json.loads(done.stdout) == {"id": "waits", "outcome": "cancelled", "state": "CANCELLED"}


def test_an_unknown_job_is_exit_code_1_and_the_others_are_cancelled(desk, cli):
    desk.queued("waits", 5)
    done = cli("jobs", "cancel", "ghost", "waits")
    assert (done.exit_code, done.stdout) == (1, "job waits is cancelled\n")
    assert "no job has the id 'ghost'" in done.stderr


def test_without_an_id_it_is_exit_code_2(cli):
    assert cli("jobs", "cancel").exit_code == 2


def test_release_takes_a_running_job_away(desk, cli):
    desk.running("runs", 5, owner="w@host|ab", msg=MESSAGE)
    done = cli("jobs", "release", "runs", "--reason", "stuck")
    assert (done.exit_code, done.stdout) == (0, "job runs was taken away from w@host; it runs again\n")
    assert desk.pulse.jobs.get("runs", fresh=True).verdict == "queued"


def test_a_job_that_does_not_run_is_not_released(desk, cli):
    desk.queued("waits", 5)
    done = cli("jobs", "release", "waits")
    assert done.exit_code == 1
    assert "only a RUNNING one can be released" in done.stderr


MESSAGE = json.dumps(
    ["[[], {}, {}]", "application/json", "utf-8", {"id": "runs", "task": "t.work"}, {}, "", "a-queue"]
)
