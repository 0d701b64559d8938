from __future__ import annotations

from denyut.states import State
from denyut.tasks.cancel import end_from_outside


def test_a_queued_job_is_ended_closed_and_its_key_is_free(bench):
    @bench.task(name="t.keyed", idempotency_key="k")
    def keyed():
        pass

    first = keyed.delay()
    ended = end_from_outside(bench.pulse, first.id, State.CANCELLED, retention=None, running=False)
    assert (ended.done, ended.found) == (True, State.QUEUED)
    assert bench.record(first.id).settled
    assert keyed.delay().id != first.id


def test_the_error_is_kept(bench):
    @bench.task(name="t.noop")
    def noop():
        pass

    job_id = noop.delay().id
    end_from_outside(bench.pulse, job_id, State.FAILED, TimeoutError("5 s"), retention=None, running=True)
    assert bench.record(job_id).error == ("TimeoutError", "5 s")


def test_without_a_record_there_is_nothing_to_end(bench):
    ended = end_from_outside(bench.pulse, "ghost", State.CANCELLED, retention=None, running=True)
    assert ended == (False, None, 0, None)


def test_an_attempt_over_its_limit_does_not_end_what_it_has_lost(bench):
    """Its lease had lapsed, and the job is queued again, as its next generation."""

    @bench.task(name="t.noop")
    def noop():
        pass

    job_id = noop.delay().id
    bench.pulse.store.client.hset(bench.pulse.keys.job(job_id).record, "gen", 2)
    limit = {"retention": None, "running": True, "owner": "a worker", "pid": 7, "generation": 1}
    ended = end_from_outside(bench.pulse, job_id, State.FAILED, TimeoutError(), **limit)
    assert (ended.done, ended.found) == (False, State.QUEUED)
    assert bench.record(job_id).state == State.QUEUED
