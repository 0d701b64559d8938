"""Every action by hand is in the audit: of the API, and of the command line."""

from __future__ import annotations

import json

import pytest

from denyut.errors import NotReleasable, UnknownJob
from denyut.tasks.actor import actor


@pytest.fixture
def stored(make_desk, tmp_path):
    desk = make_desk(denyut_database_url=f"sqlite:///{tmp_path}/jobs.db")
    desk.pulse.database.create()
    return desk


@pytest.fixture
def die(stored):
    """Make dead letters, as the scripts would."""

    def make(job_id: str) -> None:
        headers = {"id": job_id, "task": "t.work", "argsrepr": "(1,)", "root_id": job_id}
        message = json.dumps(["[[1], {}, {}]", "application/json", "utf-8", headers, {}, "", "q"])
        spent = {"budget": "failures", "reason": "x", "retention": 3600, "msg": message}
        stored.ended(job_id, 10, state="FAILED", **spent)
        stored.index("dead", job_id, stored.ago(10))

    return make


def last(stored) -> tuple:
    entry = stored.pulse.jobs.audit(limit=1).entries[0]
    return (entry.action, entry.job_id, entry.before, entry.after, entry.outcome)


def test_a_cancellation(stored):
    jobs = stored.pulse.jobs
    stored.queued("j", 1)
    jobs.cancel("j", reason="why", by="ann")
    assert last(stored) == ("cancel", "j", "QUEUED", "CANCELLED", "done")
    entry = jobs.audit("j").entries[0]
    assert (entry.actor, entry.reason) == ("ann", "why")
    jobs.cancel("j")
    assert last(stored) == ("cancel", "j", "CANCELLED", "CANCELLED", "ended")
    stored.running("r", 1)
    jobs.cancel("r")
    assert last(stored) == ("cancel", "r", "RUNNING", "RUNNING", "requested")


def test_what_is_refused(stored):
    with pytest.raises(UnknownJob):
        stored.pulse.jobs.cancel("nobody")
    action, job_id, _, _, outcome = last(stored)
    assert (action, job_id, outcome.startswith("refused: UnknownJob: no job")) == ("cancel", "nobody", True)
    stored.queued("j", 1)
    with pytest.raises(NotReleasable):
        stored.pulse.jobs.release("j")
    assert last(stored)[:4] == ("release", "j", "QUEUED", "QUEUED")


def test_a_release(stored):
    message = json.dumps(
        ["[[1], {}, {}]", "application/json", "utf-8", {"id": "j", "task": "t"}, {}, "", "q"]
    )
    stored.running("j", 1, msg=message, owner="w@host|ab", token="t")
    stored.pulse.jobs.release("j", by="ann")
    assert last(stored) == ("release", "j", "RUNNING", "QUEUED", "done")
    assert stored.pulse.jobs.audit("j").entries[0].more == {"worker": "w@host"}


def test_a_retry_names_the_new_job(stored, die):
    die("j")
    new = stored.pulse.jobs.retry("j", reason="mended")
    assert last(stored) == ("retry", "j", "FAILED", "FAILED", "done")
    entry = stored.pulse.jobs.audit("j").entries[0]
    assert (entry.more, entry.reason, entry.actor) == ({"retried_as": new.id}, "mended", actor())


def test_a_purge_of_named_letters_and_of_all_that_fit(stored, die):
    for job_id in ("a", "b", "c"):
        die(job_id)
    assert stored.pulse.jobs.purge("a", "nobody") == 1
    found = stored.pulse.jobs.audit().entries
    assert [(e.job_id, e.outcome) for e in found] == [
        ("nobody", "not a dead letter that fits"),
        ("a", "done"),
    ]
    assert stored.pulse.jobs.purge(task="t.work", by="ann") == 2
    entry = stored.pulse.jobs.audit(limit=1).entries[0]
    assert (entry.action, entry.job_id, entry.more) == ("purge", "", {"task": "t.work", "count": 2})


def test_another_time(stored):
    stored.scheduled("j", 60)
    stored.pulse.jobs.reschedule("j", countdown=5)
    assert last(stored) == ("reschedule", "j", "SCHEDULED", "SCHEDULED", "done")


def test_mending_commands(stored, invoke):
    for name in ("reindex", "restore"):
        assert invoke(stored.pulse.app, "jobs", name).exit_code == 0
        entry = stored.pulse.jobs.audit(limit=1).entries[0]
        assert (entry.action, entry.actor, entry.more) == (name, actor(), {"count": 0})


COMMANDS = {
    "cancel": ("jobs", "cancel", "j"),
    "reschedule": ("jobs", "reschedule", "j", "--in", "5"),
    "release": ("jobs", "release", "j"),
    "retry": ("jobs", "retry", "j"),
    "purge": ("jobs", "dead", "purge", "j", "--yes"),
}


@pytest.mark.parametrize("action", COMMANDS)
def test_every_command_takes_a_reason_and_tells_the_user(stored, invoke, action):
    stored.scheduled("j", 60)
    invoke(stored.pulse.app, *COMMANDS[action], "--reason", "because")
    entry = stored.pulse.jobs.audit("j").entries[0]
    assert (entry.action, entry.actor, entry.reason) == (action, actor(), "because")


def test_taking_a_lock_away(stored, invoke):
    lock = stored.pulse.lock("import", 60)
    lock.acquire()
    args = ("--fence", str(lock.fence), "--reason", "it hangs")
    invoke(stored.pulse.app, "locks", "release", "import", *args)
    stored.pulse.lock_keeper.stop()
    entry = stored.pulse.jobs.audit().entries[0]
    assert (entry.action, entry.outcome, entry.reason) == ("release lock", "done", "it hangs")
    assert entry.more == {"name": "import", "fence": lock._hold.held.fence}


def test_the_story_of_a_job_tells_what_was_done_to_it_by_hand(stored, invoke):
    stored.queued("j", 1)
    stored.pulse.jobs.cancel("j", reason="why", by="ann")
    story = stored.pulse.jobs.explain("j")
    assert [entry.actor for entry in story.audit] == ["ann"]
    assert any("by hand: cancel by ann, done (QUEUED -> CANCELLED): why" in line for line in story.lines())
    assert story.as_dict()["audit"][0]["reason"] == "why"
    stored.pulse.saving.breaker.failed(OSError("away"))
    assert "by hand: the job store could not be asked" in stored.pulse.jobs.explain("j").lines()
