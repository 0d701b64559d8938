from __future__ import annotations

import pytest

from denyut.errors import NotReleasable, UnknownJob
from denyut.states import State
from denyut.tasks.cancellation import cancel_job
from denyut.tasks.recover import recover
from denyut.tasks.release import RELEASE, release_job
from denyut.tasks.run import current_job


def running(bench, act, name="t.body"):
    """Enqueue a job that calls ``act(its id)`` in its first attempt, and run its first message."""

    @bench.task(name=name)
    def body():
        job = current_job()
        if job.attempt == 1:
            job.checkpoint("half")
            act(job.id)
        return [job.attempt, job.checkpoint_data]

    result = body.delay()
    [message] = bench.messages()
    bench.run(message)
    return result


def test_a_released_job_runs_again_from_its_checkpoint_and_no_budget_counts_it(bench):
    released = []
    result = running(bench, lambda job_id: released.append(release_job(bench.pulse, job_id, reason="stuck")))
    assert bench.record(result.id).state == State.QUEUED, "the first attempt changed nothing"
    bench.drain()
    assert result.get(timeout=5) == [2, "half"]
    record = bench.record(result.id)
    assert (record.attempt, record.crashes, record.failures) == (2, 0, 0)
    assert f"job {result.id} was taken away" in str(released[0])
    assert bench.counters()["released"] == 1


def test_whatever_the_old_attempt_still_writes_is_refused(bench):
    from denyut.errors import LeaseLost

    refused = []

    def act(job_id):
        release_job(bench.pulse, job_id)
        with pytest.raises(LeaseLost):
            current_job().checkpoint("more")
        refused.append(job_id)

    result = running(bench, act)
    assert refused
    assert bench.record(result.id).checkpoint == "half"


def test_where_the_releaser_dies_before_it_publishes_recovery_does(bench):
    def act(job_id):
        RELEASE(bench.pulse.store.client, bench.pulse.keys.script(job_id), [job_id, "[]", "me", "t", 0])

    result = running(bench, act)
    assert recover(bench.pulse, result.id, "lapsed") == "PUBLISH"
    bench.drain()
    assert result.get(timeout=5) == [2, "half"]


def test_the_script_answers_a_second_sending_as_the_first(bench):
    def act(job_id):
        args = [job_id, "[]", "me", "token", 1_000_000]
        keys = bench.pulse.keys.script(job_id)
        first, second = (RELEASE(bench.pulse.store.client, keys, args) for _ in range(2))
        assert first[0] == b"PUBLISH"
        assert second[:3] + second[4:] == first[:3] + first[4:]
        done.append(first)

    done = []
    result = running(bench, act)
    assert done
    assert bench.record(result.id).generation == 2


def test_only_a_running_job_can_be_released(bench):
    @bench.task(name="t.noop")
    def noop():
        pass

    result = noop.delay()
    with pytest.raises(NotReleasable, match="is QUEUED"):
        release_job(bench.pulse, result.id)
    with pytest.raises(UnknownJob):
        release_job(bench.pulse, "ghost")


def test_a_job_that_was_told_to_stop_is_not_run_again_by_a_release(bench):
    def act(job_id):
        cancel_job(bench.pulse, job_id)
        with pytest.raises(NotReleasable, match="was cancelled"):
            release_job(bench.pulse, job_id)
        refused.append(job_id)

    refused = []
    running(bench, act)
    assert refused
