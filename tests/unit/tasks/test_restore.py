"""What Redis loses of a running attempt is written again: the outcome is not lost with it."""

from __future__ import annotations

import pytest

from denyut import current_job
from denyut.states import State
from denyut.tasks.attempt import active_attempt


@pytest.fixture
def saved(valkey):
    """Take what Redis has now; the function that is returned brings that state back."""

    def save():
        keys = {key: valkey.dump(key) for key in valkey.scan_iter()}

        def bring_back():
            valkey.flushall()
            for key, value in keys.items():
                valkey.restore(key, 0, value)

        return bring_back

    return save


def test_a_job_whose_record_was_flushed_under_it_completes_and_sends_what_follows(bench, valkey):
    @bench.task(name="t.works")
    def works(x):
        if x == 1:
            valkey.flushall()
        return x

    result = works.apply_async((1,), link=works.si(2))
    bench.run(bench.messages()[0])
    record = bench.record(result.id)
    assert (record.state, record.attempt, record.task, record.settled) == (
        State.COMPLETED,
        1,
        "t.works",
        True,
    )
    assert result.get(timeout=5) == 1
    assert [m.payload[0] for m in bench.messages()] == [[2]]
    assert bench.counters()["restored"] == 1


@pytest.mark.parametrize("end", ["fails", "retries", "keeps a checkpoint"])
def test_so_does_one_that_ends_otherwise(bench, valkey, end):
    @bench.task(name="t.works", bind=True)
    def works(self):
        if self.request.retries:
            return "again"
        valkey.flushall()
        if end == "retries":
            raise self.retry(countdown=0)
        if end == "fails":
            raise ValueError(end)
        current_job().checkpoint(7)
        return bench.record(self.request.id).checkpoint

    result = works.delay()
    bench.drain()
    if end == "fails":
        assert bench.record(result.id).error == ("ValueError", "fails")
    else:
        assert result.get(timeout=5) == ("again" if end == "retries" else 7)


def test_a_claim_that_was_rolled_back_stands(bench, saved):
    @bench.task(name="t.works", bind=True)
    def works(self):
        bring_back()
        assert bench.record(self.request.id).state == State.QUEUED
        return "done"

    result = works.delay()
    bring_back = saved()
    [message] = bench.messages()
    bench.run(message)
    record = bench.record(result.id)
    assert (record.state, record.attempt, record.crashes) == (State.COMPLETED, 1, 0)
    assert result.get(timeout=5) == "done"


def test_an_attempt_that_was_taken_over_restores_nothing(bench):
    @bench.task(name="t.works", bind=True)
    def works(self):
        if active_attempt().run.attempt == 1:
            bench.crash(self.request.id)
            bench.run(message)
        return active_attempt().run.attempt

    result = works.delay()
    [message] = bench.messages()
    bench.run(message)
    assert result.get(timeout=5) == 2
    assert "restored" not in bench.counters()


def test_an_attempt_whose_job_has_ended_and_is_forgotten_restores_nothing(bench, valkey):
    @bench.task(name="t.works", bind=True)
    def works(self):
        keys = bench.pulse.keys.job(self.request.id)  # ended elsewhere, long ago: Redis kept its data
        valkey.delete(keys.record, keys.lease, keys.alive)

    result = works.delay()
    bench.run(bench.messages()[0])
    assert bench.record(result.id) is None
