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
