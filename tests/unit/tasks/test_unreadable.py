"""A job whose stored message cannot be read ends, instead of being looked at for ever."""

from __future__ import annotations

import pytest
from support import DiedError

from denyut.errors import UnreadableMessage
from denyut.states import State
from denyut.tasks.dead import is_dead
from denyut.tasks.recover import recover
from denyut.tasks.unreadable import read_or_end


@pytest.fixture
def noop(bench):
    @bench.task(name="t.noop")
    def noop(): ...

    return noop


def spoil(bench, job_id, message="no json"):
    bench.pulse.store.client.hset(bench.pulse.keys.job(job_id).record, "msg", message)


@pytest.mark.parametrize("message", ["no json", "[]", "{}", "7", "[1, 2]"])
def test_a_queued_job_ends_as_a_failure_a_dead_letter_and_its_caller_is_told(bench, noop, message):
    result = noop.delay()
    bench.messages()
    spoil(bench, result.id, message)
    assert recover(bench.pulse, result.id, "lost") == "FAILED"
    record = bench.record(result.id)
    assert (record.state, record.settled) == (State.FAILED, True)
    assert record.reason == "not retried: UnreadableMessage"
    assert is_dead(bench.pulse, result.id)
    with pytest.raises(UnreadableMessage, match="cannot be read"):
        result.get(timeout=5)
    assert recover(bench.pulse, result.id, "lost") == "NOTHING"


def test_a_crashed_job_ends_alike(bench):
    @bench.task(name="t.dies")
    def dies():
        raise DiedError

    result = dies.delay()
    with pytest.raises(DiedError):
        bench.run(bench.messages()[0])
    spoil(bench, result.id)
    bench.crash(result.id)
    assert recover(bench.pulse, result.id, "lapsed") == "FAILED"
    assert bench.record(result.id).state == State.FAILED


def test_a_job_that_has_ended_is_settled_as_it_is(bench, noop):
    result = noop.delay()
    record = bench.pulse.keys.job(result.id).record
    bench.pulse.store.client.hset(record, mapping={"state": "COMPLETED", "settled": "0", "fence": 5})
    assert read_or_end(bench.pulse, result.id, b"no json") is None
    assert (bench.record(result.id).state, bench.record(result.id).settled) == (State.COMPLETED, True)


def test_a_message_that_can_be_read_is_given_back(bench, noop):
    result = noop.delay()
    message = bench.pulse.store.client.hget(bench.pulse.keys.job(result.id).record, "msg")
    assert read_or_end(bench.pulse, result.id, message).headers["id"] == result.id
    assert bench.record(result.id).state == State.QUEUED
