"""Steps that a later attempt skips."""

from __future__ import annotations

import pytest
from support import DiedError

from denyut import current_job
from denyut.errors import LeaseLost
from denyut.tasks import once as module
from denyut.tasks.run import JobRun


def crash_once(bench, task, *args):
    """Run ``task`` into its death and once more; return its result."""
    result = task.delay(*args)
    [message] = bench.messages()
    with pytest.raises(DiedError):
        bench.run(message)
    bench.crash(result.id)
    bench.run(message)
    return result.get(timeout=5)


def test_a_step_of_an_earlier_attempt_is_skipped_and_gives_what_it_gave(bench):
    done = []

    @bench.task(name="t.steps")
    def steps():
        job = current_job()
        first = job.once("charge", lambda: done.append("charge") or {"paid": 7})
        if job.attempt == 1:
            raise DiedError
        second = job.once("ship", lambda: done.append("ship"))
        return [first, second]

    assert crash_once(bench, steps) == [{"paid": 7}, None]
    assert done == ["charge", "ship"]


def test_a_step_whose_worker_died_before_the_note_is_done_again(bench):
    done = []

    @bench.task(name="t.dies")
    def dies():
        def charge():
            done.append(1)
            if len(done) == 1:
                raise DiedError
            return len(done)

        return current_job().once("charge", charge)

    assert crash_once(bench, dies) == 2


def test_a_step_survives_a_retry(bench):
    done = []

    @bench.task(name="t.retries", bind=True, max_retries=1)
    def retries(self):
        current_job().once("charge", lambda: done.append(1))
        if self.request.retries == 0:
            raise self.retry(countdown=0)
        return "ok"

    result = retries.delay()
    bench.drain()
    assert result.get(timeout=5) == "ok"
    assert done == [1]


def test_in_one_attempt_a_step_is_done_once_too(bench):
    done = []

    @bench.task(name="t.twice")
    def twice():
        return [current_job().once("a", lambda: done.append(1) or len(done)) for _ in range(2)]

    result = twice.delay()
    bench.drain()
    assert result.get(timeout=5) == [1, 1]


def test_a_step_that_raises_is_not_noted(bench):
    @bench.task(name="t.raises")
    def raises():
        job = current_job()
        with pytest.raises(ZeroDivisionError):
            job.once("a", lambda: 1 // 0)
        return job.once("a", lambda: "now")

    result = raises.delay()
    bench.drain()
    assert result.get(timeout=5) == "now"


def test_an_attempt_that_has_lost_its_job_keeps_nothing_and_is_told(bench):
    told = []

    @bench.task(name="t.loses")
    def loses():
        job = current_job()
        key = bench.pulse.keys.job(job.id).record
        if job.attempt == 1:

            def charge():
                bench.pulse.store.client.hset(key, "fence", job.fence + 1)  # another attempt claims it
                return "stale"

            with pytest.raises(LeaseLost, match="not kept"):
                job.once("charge", charge)
            told.append(bench.pulse.store.client.hkeys(key))
            raise DiedError
        return job.once("charge", lambda: "fresh")

    assert crash_once(bench, loses) == "fresh"
    assert not [field for field in told[0] if field.startswith(b"once:")]


def test_a_step_sent_twice_keeps_the_first_value_and_counts_once(bench):
    @bench.task(name="t.lost_reply")
    def lost_reply():
        job = current_job()
        values = [module._ask(job, "a", value) for value in ('"first"', '"again"')]
        return [values, int(bench.pulse.store.client.hget(bench.pulse.keys.job(job.id).record, "steps"))]

    result = lost_reply.delay()
    bench.drain()
    assert result.get(timeout=5) == [['"first"', '"first"'], 1]


@pytest.mark.parametrize("attempt", [1, 2])
def test_the_steps_of_a_job_are_bounded(monkeypatch, bench, attempt):
    monkeypatch.setattr(module, "MOST_STEPS", 2)

    @bench.task(name="t.many")
    def many():
        job = current_job()
        job.attempt = attempt
        for name in ("a", "b", "a"):
            job.once(name, lambda: 1)
        job.steps = {} if attempt == 2 else job.steps  # a later attempt knows none yet
        done = []
        with pytest.raises(ValueError, match=r"at most 2 steps.*checkpoint"):
            job.once("c", lambda: done.append("c"))
        return done

    result = many.delay()
    bench.drain()
    assert result.get(timeout=5) == []


@pytest.mark.parametrize("bad", ["", "x" * 201, 7])
def test_a_step_needs_a_short_name(bad):
    with pytest.raises(ValueError, match="1 to 200"):
        JobRun(id="j", task="t").once(bad, lambda: 1)


@pytest.mark.parametrize("bad", [object(), float("nan"), "x" * 65_536])
def test_a_value_that_cannot_be_kept_is_an_error(bad):
    with pytest.raises((TypeError, ValueError)):
        JobRun(id="j", task="t").once("a", lambda: bad)


def test_without_a_worker_it_works_and_is_kept_in_memory(bench):
    done = []

    @bench.task(name="t.direct")
    def direct():
        return [current_job().once("a", lambda: done.append(1) or [1]) for _ in range(2)]

    assert direct() == [[1], [1]]
    assert direct.apply().get() == [[1], [1]]
    assert done == [1, 1], "once a job, and these were two"
