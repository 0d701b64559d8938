from __future__ import annotations

import pytest

from denyut.errors import DenyutError, JobCancelled, JobDead
from denyut.states import State
from denyut.tasks.replay import outcome_of, raising
from denyut.tasks.result import encode_result


@pytest.fixture
def task(bench):
    @bench.task(name="t.noop")
    def noop():
        pass

    return noop


def test_a_completed_job_gives_its_result(task):
    assert outcome_of(task, "j", State.COMPLETED, encode_result([1], "json"), "")() == [1]
    assert outcome_of(task, "j", State.COMPLETED, "", "")() is None


def test_a_failed_job_raises_its_own_exception(task):
    data = task.backend.prepare_exception(KeyError("k"), serializer="json")
    with pytest.raises(KeyError, match="k"):
        outcome_of(task, "j", State.FAILED, "", encode_result(data, "json"))()


@pytest.mark.parametrize(
    ("state", "error"),
    [(State.DEAD, JobDead), (State.CANCELLED, JobCancelled), (State.EXPIRED, DenyutError)],
)
def test_an_end_without_an_exception_says_how_it_ended(task, state, error):
    with pytest.raises(error, match=f"job j ended as {state}"):
        outcome_of(task, "j", state, "", "")()


def test_raising_raises():
    with pytest.raises(ZeroDivisionError):
        raising(ZeroDivisionError())()
