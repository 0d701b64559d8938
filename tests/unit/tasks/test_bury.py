"""A dead job is told to Celery exactly as a failure is."""

from __future__ import annotations

import pytest
from celery import chord, signals
from celery.exceptions import ChordError
from support import DiedError

from denyut.errors import JobDead
from denyut.states import State
from denyut.tasks.recover import recover


@pytest.fixture
def bench(make_bench):
    return make_bench(denyut_max_crashes=0)


@pytest.fixture
def dies(bench):
    @bench.task(name="t.dies")
    def dies(*args):
        raise DiedError

    return dies


def kill(bench, job_id):
    for message in bench.messages():
        if message.headers["id"] == job_id:
            with pytest.raises(DiedError):
                bench.run(message)
        else:
            bench.run(message)
    bench.crash(job_id)
    assert recover(bench.pulse, job_id, "lapsed") == "DEAD"


def test_the_failure_signal_fires_and_the_error_link_is_sent(bench, dies):
    failures = []

    def on_failure(sender=None, task_id=None, exception=None, **kwargs):
        failures.append((task_id, type(exception)))

    @bench.task(name="t.errback")
    def errback(task_id):
        return task_id

    signals.task_failure.connect(on_failure)
    result = dies.apply_async(link_error=errback.s())
    kill(bench, result.id)
    signals.task_failure.disconnect(on_failure)
    assert failures == [(result.id, JobDead)]
    assert [m.payload[0] for m in bench.messages()] == [[result.id]]


def test_the_chord_of_a_dead_member_fails_instead_of_waiting_for_ever(bench, dies):
    @bench.task(name="t.noop")
    def noop(*args):
        return 1

    body = chord([noop.s(), dies.s()])(noop.s())
    dead = body.parent.children[1]
    kill(bench, dead.id)
    with pytest.raises((ChordError, JobDead)):
        body.get(timeout=5)
    assert body.state == "FAILURE"


def test_a_job_whose_message_is_unknown_is_settled_all_the_same(bench, dies):
    result = dies.delay()
    bench.pulse.store.client.hdel(bench.pulse.keys.job(result.id).record, "msg")
    kill(bench, result.id)
    record = bench.record(result.id)
    assert (record.state, record.settled) == (State.DEAD, True)


def test_celery_hears_what_every_attempt_died_of(make_bench):
    bench = make_bench(denyut_max_crashes=0)

    @bench.task(name="t.dies", bind=True)
    def dies(self):
        if not self.request.retries:
            raise self.retry(exc=KeyError("x"), countdown=0)
        raise DiedError

    seen = []

    def on_failure(traceback=None, args=None, kwargs=None, **_):
        seen.append((traceback, args, kwargs))

    signals.task_failure.connect(on_failure)
    result = dies.apply_async((), {})
    bench.run(bench.messages()[0])
    kill(bench, result.id)
    signals.task_failure.disconnect(on_failure)
    ((traceback, args, kwargs),) = seen
    assert "attempt 1 on " in traceback
    assert "KeyError" in traceback
    assert "attempt 2 on " in traceback
    assert "WorkerLost: its worker gave the last sign of life" in traceback
    assert (args, kwargs) == ([], {})
    assert result.traceback == traceback


def test_a_burial_that_failed_is_done_again_when_its_lease_is_over(bench, dies, monkeypatch):
    @bench.task(name="t.errback")
    def errback(task_id): ...

    result = dies.apply_async(link_error=errback.s())
    [message] = bench.messages()
    with pytest.raises(DiedError):
        bench.run(message)
    bench.crash(result.id)

    class AwayError(Exception):
        pass

    def away(*args, **kwargs):
        raise AwayError

    with monkeypatch.context() as patch:
        patch.setattr(dies.backend, "mark_as_failure", away)
        with pytest.raises(AwayError):
            recover(bench.pulse, result.id, "lapsed")
    assert not bench.record(result.id).settled
    assert recover(bench.pulse, result.id, "lapsed") == "NOTHING", "somebody has the lease"
    bench.crash(result.id)
    assert recover(bench.pulse, result.id, "lapsed") == "DEAD"
    assert bench.record(result.id).settled
    assert len(bench.messages()) == 1, "its error link"
    with pytest.raises(JobDead):
        result.get(timeout=5)


def test_a_burial_that_broke_off_after_the_error_link_does_not_send_it_again(bench, dies, monkeypatch):
    @bench.task(name="t.errback")
    def errback(task_id): ...

    result = dies.apply_async(link_error=errback.s())
    [message] = bench.messages()
    with pytest.raises(DiedError):
        bench.run(message)
    bench.crash(result.id)

    class CutError(Exception):
        pass

    def cut(*args, **kwargs):
        raise CutError

    with monkeypatch.context() as patch:
        patch.setattr("denyut.tasks.telling.settle", cut)
        with pytest.raises(CutError):
            recover(bench.pulse, result.id, "lapsed")
    bench.crash(result.id)
    assert recover(bench.pulse, result.id, "lapsed") == "DEAD"
    assert len(bench.messages()) == 1


def test_a_dead_job_whose_message_cannot_be_read_is_told_by_its_result_alone(bench, dies):
    result = dies.delay()
    [message] = bench.messages()
    with pytest.raises(DiedError):
        bench.run(message)
    bench.pulse.store.client.hset(bench.pulse.keys.job(result.id).record, "msg", "no json")
    bench.crash(result.id)
    assert recover(bench.pulse, result.id, "lapsed") == "DEAD"
    assert bench.record(result.id).settled
    with pytest.raises(JobDead):
        result.get(timeout=5)
