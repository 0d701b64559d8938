"""The reason of a dead letter is true, and says which budget is spent."""

from __future__ import annotations

import pytest
from celery.exceptions import TimeLimitExceeded
from support import DiedError

from denyut.errors import IdempotencyConflict
from denyut.states import State
from denyut.tasks.cancel import end_from_outside
from denyut.tasks.reason import not_retried, retries_spent, why_ended
from denyut.tasks.recover import recover


def why(bench, job_id):
    record = bench.record(job_id)
    return record.state, record.budget, record.reason


def test_an_error_without_a_retry_is_named(bench):
    @bench.task(name="t.fails")
    def fails():
        raise ValueError("no")

    result = fails.delay()
    bench.drain()
    assert why(bench, result.id) == (State.FAILED, "failures", "not retried: ValueError")


@pytest.mark.parametrize(
    ("most", "says"), [(2, "2 retries spent (max_retries=2)"), (0, "no retry is allowed")]
)
def test_a_task_that_asks_for_one_retry_too_many_has_spent_them(bench, most, says):
    @bench.task(name="t.retries", bind=True, max_retries=most)
    def retries(self):
        raise self.retry(exc=KeyError("x"), countdown=0)

    result = retries.delay()
    bench.drain()
    state, budget, reason = why(bench, result.id)
    assert (state, budget) == (State.FAILED, "failures")
    assert reason.startswith(says)


def test_retries_that_celery_makes_by_itself_are_counted_alike(bench):
    @bench.task(name="t.auto", autoretry_for=(KeyError,), max_retries=1, default_retry_delay=0)
    def auto():
        raise KeyError("x")

    result = auto.delay()
    bench.drain()
    assert why(bench, result.id)[2] == "1 retry spent (max_retries=1)"


def test_a_limit_given_in_the_call_counts_instead_of_the_tasks_own(bench):
    @bench.task(name="t.retries", bind=True)
    def retries(self):
        raise self.retry(countdown=0, max_retries=1)

    result = retries.delay()
    bench.drain()
    assert why(bench, result.id)[2] == "1 retry spent (max_retries=1)"


def test_another_error_after_retries_is_not_called_spent(bench):
    @bench.task(name="t.turns", bind=True)
    def turns(self):
        if self.request.retries:
            raise TypeError("another")
        raise self.retry(countdown=0)

    result = turns.delay()
    bench.drain()
    assert why(bench, result.id)[2] == "not retried after 1 retry: TypeError"


def test_a_job_whose_key_belongs_to_another_names_that_one(bench):
    @bench.task(name="t.fails")
    def fails(x):
        raise ValueError("no")

    first = fails.apply_async((1,), idempotency_key="k")
    conflict = fails.apply_async((2,), idempotency_key="k", task_id="conflict")
    follower = fails.apply_async((1,), idempotency_key="k", task_id="follower")
    messages = bench.messages()
    bench.run(next(m for m in messages if m.headers["id"] == first.id))
    for message in messages:
        bench.run(message)
    assert why(bench, first.id)[2] == "not retried: ValueError"
    assert why(bench, conflict.id)[2] == (
        f"not run: its key belongs to job {first.id}, which has other arguments"
    )
    assert why(bench, follower.id)[2] == (
        f"not run: it takes over the end of job {first.id}, which has its key"
    )


def test_lost_workers_are_another_budget(make_bench):
    bench = make_bench(denyut_max_crashes=0)

    @bench.task(name="t.dies")
    def dies():
        raise DiedError

    result = dies.delay()
    with pytest.raises(DiedError):
        bench.run(bench.messages()[0])
    bench.crash(result.id)
    recover(bench.pulse, result.id, "lapsed")
    assert why(bench, result.id) == (State.DEAD, "crashes", "lost 1 worker (max_crashes=0)")


def test_a_worker_that_finds_the_budget_spent_writes_the_same_reason(make_bench):
    bench = make_bench(denyut_max_crashes=0)

    @bench.task(name="t.dies")
    def dies():
        raise DiedError

    result = dies.delay()
    [message] = bench.messages()
    with pytest.raises(DiedError):
        bench.run(message)
    bench.crash(result.id)
    bench.run(message)
    assert why(bench, result.id) == (State.DEAD, "crashes", "lost 1 worker (max_crashes=0)")
    assert bench.record(result.id).error == ("JobDead", "lost 1 worker (max_crashes=0)")


def test_a_hard_time_limit_is_named_with_its_seconds(bench):
    @bench.task(name="t.noop")
    def noop(): ...

    result = noop.delay()
    end_from_outside(
        bench.pulse, result.id, State.FAILED, TimeLimitExceeded(30), retention=None, running=True
    )
    assert why(bench, result.id) == (State.FAILED, "failures", "over its hard time limit of 30 s")


@pytest.mark.parametrize("state", [State.CANCELLED, State.EXPIRED])
def test_who_was_cancelled_or_expired_has_no_budget_spent(bench, state):
    @bench.task(name="t.noop")
    def noop(): ...

    result = noop.delay()
    end_from_outside(bench.pulse, result.id, state, retention=None, running=True)
    assert why(bench, result.id) == (state, None, None)


def test_the_words():
    assert retries_spent(3, 3) == "3 retries spent (max_retries=3)"
    assert not_retried("") == "not retried: unknown error"
    assert why_ended(TimeLimitExceeded(0.5), "") == "over its hard time limit of 0.5 s"
    assert why_ended(TimeLimitExceeded(), "") == "over its hard time limit of unknown s"
    conflict = IdempotencyConflict("k", "t", "j")
    assert why_ended(conflict, '["IdempotencyConflict", "..."]') == "not retried: IdempotencyConflict"
