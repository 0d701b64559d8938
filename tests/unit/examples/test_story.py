from __future__ import annotations

from statuses import job
from story import changes

from denyut.states import State


def told(old, new):
    return list(changes({"m": old}, {"m": new}))


def test_nothing_is_told_of_a_job_that_just_works():
    assert told(job(State.QUEUED), job(State.RUNNING, attempt=1)) == []
    assert told(job(State.RUNNING, attempt=1), job(State.COMPLETED, attempt=1)) == []


def test_a_crash_is_told():
    new = job(State.QUEUED, attempt=1, crashes=1)
    assert told(job(State.RUNNING, attempt=1), new) == ["m: attempt 1 crashed; the job is published again"]


def test_a_new_attempt_is_told_with_where_it_begins_and_how_long_it_took():
    new = job(
        State.RUNNING, attempt=2, crashes=1, owner="w1@demo|ab", checkpoint=5000, recovered_us=2_345_678
    )
    assert told(job(State.QUEUED, attempt=1, crashes=1), new) == [
        "m: attempt 2 runs on w1@demo from its checkpoint at flight 5,000, 2.35 s after the last sign of life"
    ]


def test_an_attempt_without_a_checkpoint_begins_at_the_start():
    new = job(State.RUNNING, attempt=2, crashes=1, owner="w1@demo|ab", recovered_us=0)
    assert "runs on w1@demo from the start" in told(job(State.QUEUED, attempt=1, crashes=1), new)[0]


def test_crash_and_new_attempt_between_two_looks_are_both_told():
    new = job(State.RUNNING, attempt=2, crashes=1, owner="w1@demo|ab")
    assert len(told(job(State.RUNNING, attempt=1), new)) == 2


def test_a_bad_end_is_told_with_its_reason():
    new = job(State.FAILED, attempt=1, error=("ValueError", "no such month"))
    assert told(job(State.RUNNING, attempt=1), new) == ["m: failed ValueError no such month"]
