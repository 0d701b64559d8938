"""A hard time limit is retried by the task's own policy, from the worker's main process."""

from __future__ import annotations

import os

import pytest
from billiard.einfo import ExceptionInfo
from celery.exceptions import TimeLimitExceeded
from support import DiedError

from denyut.states import State
from denyut.tasks.node import current_node
from denyut.tasks.over_limit import retry_delay, retry_over_limit
from denyut.tasks.request import JobRequest

LIMIT = TimeLimitExceeded(5)


def slow(bench, **options):
    @bench.task(name="t.slow", **options)
    def slow():
        raise DiedError  # its process is killed at the limit

    return slow


def nothing():
    """Do nothing."""


def begun(bench, task):
    """A job whose attempt runs, and has not come to its end."""
    result = task.delay()
    [message] = bench.messages()
    with pytest.raises(DiedError):
        bench.run(message)
    assert bench.record(result.id).state == State.RUNNING
    return result, message


def again(bench, task, job_id, **changes):
    meant = {"owner": current_node().owner, "pid": os.getpid(), "generation": 0}
    return retry_over_limit(bench.pulse, task, job_id, LIMIT, **(meant | changes))


def test_the_policy_is_that_of_the_tasks_own_retries(bench):
    wanted = {"autoretry_for": (Exception,)}

    def delays(name, **options):
        task = bench.task(name=name, **wanted, **options)(nothing)
        return [retry_delay(task, LIMIT, n) for n in range(4)]

    assert retry_delay(slow(bench), LIMIT, 0) is None, "the task asks for no retries"
    assert delays("t.one", retry_kwargs={"countdown": 7, "max_retries": 2}) == [7.0, 7.0, None, None]
    assert delays("t.two", default_retry_delay=3) == [3.0, 3.0, 3.0, None]
    backoff = {"retry_backoff": 2, "retry_backoff_max": 5, "retry_jitter": False}
    assert delays("t.three", **backoff) == [2.0, 4.0, 5.0, None]
    assert delays("t.four", dont_autoretry_for=(TimeLimitExceeded,)) == [None] * 4


def test_it_waits_in_the_store_as_the_next_retry_and_counts_as_a_failure(bench):
    task = slow(bench, autoretry_for=(Exception,), retry_kwargs={"countdown": 30})
    result, _ = begun(bench, task)
    assert again(bench, task, result.id)
    record = bench.record(result.id)
    assert (record.state, record.generation, record.failures, record.crashes) == (State.RETRYING, 2, 1, 0)
    assert record.error[0] == "TimeLimitExceeded"
    assert not again(bench, task, result.id), "it does not run"


def test_without_a_delay_it_is_published_at_once_with_one_retry_more(bench):
    task = slow(bench, autoretry_for=(Exception,), retry_kwargs={"countdown": 0})
    result, _ = begun(bench, task)
    assert again(bench, task, result.id)
    [message] = bench.messages()
    assert (message.headers["id"], message.headers["retries"]) == (result.id, 1)


@pytest.mark.parametrize("changes", [{"owner": "other|1"}, {"pid": 1}, {"generation": 5}])
def test_an_attempt_that_is_not_meant_is_left_alone(bench, changes):
    task = slow(bench, autoretry_for=(Exception,))
    result, _ = begun(bench, task)
    assert not again(bench, task, result.id, **changes)
    assert bench.record(result.id).state == State.RUNNING


def test_the_worker_retries_instead_of_failing_and_lets_the_message_go(bench):
    task = slow(bench, autoretry_for=(Exception,), retry_kwargs={"countdown": 30}, acks_late=True)
    result, message = begun(bench, task)
    acks = []
    request = JobRequest(message, app=bench.app, task=task, hostname="w", on_ack=lambda *_: acks.append(1))
    request.worker_pid = os.getpid()
    try:
        raise LIMIT
    except TimeLimitExceeded:
        request.on_failure(ExceptionInfo())
    request.on_timeout(soft=False, timeout=5)
    assert bench.record(result.id).state == State.RETRYING
    assert result.state == "RETRY"
    assert acks == [1]


def test_when_the_retries_are_spent_it_fails(bench):
    task = slow(bench, autoretry_for=(Exception,), retry_kwargs={"countdown": 0, "max_retries": 1})
    result, _ = begun(bench, task)
    assert again(bench, task, result.id)
    [message] = bench.messages()
    with pytest.raises(DiedError):
        bench.run(message)
    request = JobRequest(message, app=bench.app, task=task, hostname="w", on_ack=lambda *_: None)
    request.worker_pid = os.getpid()
    request.on_timeout(soft=False, timeout=5)
    assert bench.record(result.id).state == State.FAILED
    assert result.state == "FAILURE"
