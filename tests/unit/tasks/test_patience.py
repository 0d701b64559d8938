from __future__ import annotations

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError

from denyut.states import State
from denyut.tasks import patience
from denyut.tasks.aside import StepAside
from denyut.tasks.patience import PASSING, patiently


@pytest.mark.parametrize("error", PASSING)
def test_a_step_is_tried_again_while_redis_cannot_be_reached(error):
    answers = [error("away"), error("away"), "there"]

    def step():
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert patiently(step) == "there"


def test_patience_ends():
    def away():
        raise RedisConnectionError("away")

    with pytest.raises(RedisConnectionError):
        patiently(away, patience=0.05)


def test_another_trouble_is_not_tried_again():
    calls = []

    def wrong():
        calls.append(1)
        raise ResponseError("wrong")

    with pytest.raises(ResponseError):
        patiently(wrong)
    assert calls == [1]


def test_a_job_whose_end_cannot_be_written_is_no_failure_but_runs_again(bench, monkeypatch):
    from denyut.tasks import attempt

    @bench.task(name="t.noop")
    def noop():
        return 1

    def away(*args, **kwargs):
        raise RedisConnectionError("away")

    result = noop.delay()
    [message] = bench.messages()
    with monkeypatch.context() as patch:
        patch.setattr(attempt, "finish", away)
        traced = bench.run(message)
    assert isinstance(traced.retval.exception.exc, StepAside)
    assert result.state == "PENDING"
    bench.crash(result.id)
    bench.run(message)
    assert result.get(timeout=5) == 1


def test_a_job_that_cannot_be_settled_is_replayed_without_a_second_callback(bench, monkeypatch):
    from denyut.tasks import attempt

    runs = []

    @bench.task(name="t.noop")
    def noop(*args):
        runs.append(args)

    def away(*args, **kwargs):
        raise RedisConnectionError("away")

    result = noop.apply_async((1,), link=noop.si("callback"))
    [message] = bench.messages()
    with monkeypatch.context() as patch:
        patch.setattr(attempt, "settle", away)
        bench.run(message)
    assert bench.record(result.id).state == State.COMPLETED
    assert not bench.record(result.id).settled
    bench.crash(result.id)
    bench.run(message)
    bench.drain()
    assert runs == [(1,), ("callback",)]


def test_a_retry_that_cannot_be_recorded_is_not_the_end_of_the_job(bench, monkeypatch):
    from denyut.tasks import door

    @bench.task(name="t.flaky", bind=True)
    def flaky(self):
        if self.request.delivery_info and not runs:
            runs.append(1)
            raise self.retry(countdown=0)
        return "done"

    def away(*args, **kwargs):
        raise RedisConnectionError("away")

    runs: list[int] = []
    result = flaky.delay()
    [message] = bench.messages()
    with monkeypatch.context() as patch:
        patch.setattr(door, "requeue", away)
        bench.run(message)
    assert bench.record(result.id).state == State.RUNNING
    bench.crash(result.id)
    bench.run(message)
    assert result.get(timeout=5) == "done"


def test_the_default_patience_outlasts_a_failover():
    assert patience.PATIENCE >= 30
