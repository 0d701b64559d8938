"""What will happen next is said for every way in which a job can stand."""

from __future__ import annotations

import pytest

from denyut.config import Settings
from denyut.monitoring.outlook import Waiting, outlook
from denyut.monitoring.status import Status
from denyut.states import State, Verdict
from denyut.tasks.record import JobRecord

SECOND = 1_000_000
NOW = 1_700_000_000 * SECOND
ONE = {"workers": 1}


def next_of(state, verdict=None, waiting=None, lease_ms=0, **fields):
    known = {"id": "j", "task": "t", "queue": "q", "state": State(state), "generation": 1, "attempt": 1}
    known |= {"failures": 0, "crashes": 0, "fence": 7, "version": 3, **fields}
    record = JobRecord(**known)
    status = Status(
        id="j", verdict=Verdict(verdict or state.lower()), record=record, telemetry=None,
        lease="w#7" if lease_ms else None, lease_ttl_ms=lease_ms, alive=True, marked_us=1, now_us=NOW,
        poll_after_ms=0,
    )  # fmt: skip
    return outlook(status, Waiting(**(ONE if waiting is None else ONE | waiting)), Settings())


def test_a_scheduled_job_says_when_it_is_due():
    text = next_of("SCHEDULED", waiting={"scheduled": NOW + 90 * SECOND})
    assert text == "it is due in 1.5 min; then any worker publishes it"


def test_a_job_that_runs_after_another_says_which():
    text = next_of("SCHEDULED", waiting={"scheduled": NOW}, follows="other", after="key")
    assert text == "it runs when job other has ended, which has its key; any worker publishes it"


def test_a_job_that_is_overdue_without_workers_says_what_it_waits_for():
    text = next_of("RETRYING", waiting={"scheduled": NOW - 5 * SECOND, "workers": 0})
    assert text == "it is due since 5.0 s; then the first worker that starts (none beats now) publishes it"


def test_a_queued_job_says_what_happens_if_its_message_is_lost():
    text = next_of("QUEUED", waiting={"queued": NOW - 20 * SECOND})
    assert text.startswith(
        "it waits in queue q for a worker; if its message is nowhere, any worker publishes it again in 40.0 s"
    )


def test_a_prefetched_job_says_what_happens_if_that_worker_dies():
    text = next_of("QUEUED", waiting={"held": NOW + 4 * SECOND})
    assert (
        text
        == "a worker has its message; if that dies, any worker publishes it again (in 4.0 s at the latest)"
    )


def test_a_suspect_waits_for_its_turn():
    assert "when its turn has come" in next_of("QUEUED", waiting={"held": NOW + 4 * SECOND, "turn": True})


def test_a_running_job_goes_on():
    assert (
        next_of("RUNNING", lease_ms=5200)
        == "it goes on; its lease lapses in 5.2 s unless its worker beats (every 2 s)"
    )


def test_a_job_whose_beats_are_late_says_when_it_is_published_again():
    text = next_of("RUNNING", "slow", lease_ms=3200, crashes=1)
    assert text == (
        "its lease lapses in 3.2 s unless its worker beats, then any worker publishes it again "
        "(that would be lost worker 2, and it is dead after more than 3)"
    )


@pytest.mark.parametrize(("crashes", "says"), [(1, "it runs again"), (3, "its crash budget is spent then")])
def test_a_crashed_job_is_taken_soon(crashes, says):
    text = next_of("RUNNING", "crashed", crashes=crashes)
    assert text == f"its lease is gone; any worker takes it within 0.5 s, and {says}"


def test_a_stalled_job_goes_on_until_somebody_ends_it():
    assert "somebody ends it" in next_of("RUNNING", "stalled", lease_ms=5000)


def test_an_ended_job_whose_callbacks_are_not_sent_says_who_sends_them():
    assert next_of("COMPLETED", lease_ms=5000).startswith("what follows it is being sent")
    assert next_of("COMPLETED").startswith("what follows it was not sent yet; any worker sends it within")


def test_a_completed_job_says_when_it_is_forgotten():
    assert (
        next_of("COMPLETED", settled=True, waiting={"left": 120.0}) == "nothing; it is forgotten in 2.0 min"
    )


def test_a_dead_letter_says_how_to_run_it_again_and_how_long_it_is_kept():
    text = next_of("FAILED", settled=True, waiting={"dead": NOW - 86400 * SECOND})
    assert "jobs retry" in text
    assert text.endswith("it is purged in 6.0 d")


def test_a_retried_job_names_the_new_one():
    text = next_of("DEAD", settled=True, retried_as="new", waiting={"left": 3600.0})
    assert text == "nothing: it was retried by hand as job new; it is forgotten in 1.0 h"
