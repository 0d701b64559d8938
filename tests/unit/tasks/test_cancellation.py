"""One cancellation in every state, and every race of it, on one record."""

from __future__ import annotations

import pytest

from denyut.errors import InvalidKey, UnknownJob
from denyut.states import State
from denyut.tasks.attempt import active_attempt
from denyut.tasks.cancellation import CANCEL, Cancellation, Outcome, cancel_job, hurry
from denyut.tasks.recover import recover


@pytest.fixture
def noop(bench):
    @bench.task(name="t.noop")
    def noop(*args):
        return 1

    return noop


def during(bench, body, *, name="t.body", **options):
    """Enqueue a job that runs ``body`` in its body; returns its result and its message."""
    task = bench.task(name=name, **options)(body)
    result = task.delay()
    [message] = bench.messages()
    return result, message


@pytest.mark.parametrize(("countdown", "state"), [(None, State.QUEUED), (60, State.SCHEDULED)])
def test_a_waiting_job_ends_at_once_and_its_message_is_dropped(bench, noop, countdown, state):
    result = noop.apply_async(countdown=countdown)
    assert bench.record(result.id).state == state
    done = cancel_job(bench.pulse, result.id)
    assert done == Cancellation(result.id, Outcome.CANCELLED, State.CANCELLED)
    record = bench.record(result.id)
    assert (record.state, record.settled) == (State.CANCELLED, True)
    assert [bench.run(m).info.state for m in bench.messages()] == ["IGNORED"] * (countdown is None)
    part = bench.pulse.keys.partition(bench.pulse.keys.partition_of(result.id))
    client = bench.pulse.store.client
    assert not any(client.zscore(i, result.id) for i in (part.queued, part.schedule, part.leases))


def test_a_job_that_waits_for_its_next_try_ends_at_once(bench):
    def retry(self):
        raise self.retry(countdown=60)

    result, message = during(bench, retry, bind=True)
    bench.run(message)
    assert bench.record(result.id).state == State.RETRYING
    assert cancel_job(bench.pulse, result.id).outcome == Outcome.CANCELLED
    assert result.state == "REVOKED"


def test_a_follower_is_cancelled_alone(bench):
    @bench.task(name="t.keyed", idempotency_key="k")
    def keyed():
        return 1

    first, second = keyed.delay(), keyed.apply_async(task_id="second")
    one, other = bench.messages()
    bench.run(other)
    assert bench.record(second.id).state == State.SCHEDULED
    cancel_job(bench.pulse, second.id)
    bench.run(one)
    assert (first.get(timeout=5), second.state) == (1, "REVOKED")


def test_the_key_of_a_cancelled_job_is_free(bench):
    @bench.task(name="t.keyed", idempotency_key="k")
    def keyed():
        return 1

    first = keyed.delay()
    cancel_job(bench.pulse, first.id)
    assert keyed.delay().id != first.id


def test_an_orphan_whose_worker_is_gone_ends_at_once_and_is_not_recovered(bench):
    def body():
        bench.crash(result.id)
        cancelled.append(cancel_job(bench.pulse, result.id))

    cancelled = []
    result, message = during(bench, body)
    assert bench.run(message).info.state == "IGNORED", "the attempt that was fenced off wrote nothing"
    assert [c.outcome for c in cancelled] == [Outcome.CANCELLED]
    assert recover(bench.pulse, result.id, "lapsed") == "NOTHING"
    assert result.state == "REVOKED"


@pytest.mark.parametrize("how", ["lapsed", "claimed"])
def test_a_running_job_that_was_told_to_stop_and_whose_worker_dies_is_cancelled_not_run_again(bench, how):
    def die(*args):
        cancelled.append(cancel_job(bench.pulse, result.id, reason="enough", by="me"))
        bench.crash(result.id)
        if how == "claimed":
            bench.run(message)
        else:
            assert recover(bench.pulse, result.id, "lapsed") == "CANCELLED"

    cancelled = []
    result, message = during(bench, die)
    bench.run(message)
    assert [(c.outcome, c.state) for c in cancelled] == [(Outcome.REQUESTED, State.RUNNING)]
    record = bench.record(result.id)
    assert (record.state, record.settled, record.crashes, record.attempt) == (State.CANCELLED, True, 0, 1)
    assert record.error == ("JobCancelled", "cancelled by me: enough")
    assert result.state == "REVOKED"
    assert bench.messages() == []


def test_a_running_job_says_that_it_was_told_to_stop(bench):
    def body():
        cancel_job(bench.pulse, result.id, by="me")
        cancel_job(bench.pulse, result.id, by="you")
        seen.append(bench.record(result.id))

    seen = []
    result, message = during(bench, body)
    bench.run(message)
    assert [(r.state, r.cancel) for r in seen] == [(State.RUNNING, "cancelled by me")]
    assert bench.counters()["cancel_requested"] == 1


def test_a_body_that_ends_before_it_was_told_has_completed(bench):
    def body():
        return cancel_job(bench.pulse, result.id).outcome

    result, message = during(bench, body)
    bench.run(message)
    assert result.get(timeout=5) == "requested"
    assert bench.record(result.id).state == State.COMPLETED


@pytest.mark.parametrize("how", ["retry", "replace", "requeue"])
def test_a_job_that_was_told_to_stop_begins_no_further_generation(bench, noop, how):
    from celery.exceptions import Reject

    def body(self):
        cancel_job(bench.pulse, self.request.id)
        if how == "retry":
            raise self.retry(countdown=0)
        if how == "replace":
            self.replace(noop.s())
        raise Reject("later", requeue=True)

    result, message = during(bench, body, bind=True)
    bench.run(message)
    assert bench.record(result.id).state == State.CANCELLED
    assert bench.record(result.id).settled
    assert bench.messages() == []
    assert result.state == "REVOKED"


def test_a_replacement_that_comes_after_the_cancellation_is_not_published(bench, noop):
    def body(self):
        active_attempt()._next_generation("replace")
        cancel_job(bench.pulse, self.request.id)
        noop.apply_async(task_id=self.request.id)

    result, message = during(bench, body, bind=True)
    bench.run(message)
    assert bench.record(result.id).state == State.CANCELLED
    assert bench.messages() == []


@pytest.mark.parametrize("state", [State.COMPLETED, State.CANCELLED])
def test_an_ended_job_stays_as_it_is_and_the_answer_says_so(bench, noop, state):
    result = noop.delay()
    if state == State.CANCELLED:
        cancel_job(bench.pulse, result.id)
    bench.drain()
    before = bench.record(result.id)
    done = cancel_job(bench.pulse, result.id)
    assert (done.outcome, done.state) == (Outcome.ENDED, state)
    assert f"had already ended as {state}" in str(done)
    assert bench.record(result.id) == before


def test_the_script_answers_a_second_sending_as_the_first(bench, noop):
    job_id = noop.delay().id
    args = [job_id, '["JobCancelled", "x"]', "me", "token", 1_000_000]
    keys = bench.pulse.keys.script(job_id)
    first = CANCEL(bench.pulse.store.client, keys, args)
    assert CANCEL(bench.pulse.store.client, keys, args) == first
    assert first[0] == b"CANCELLED"
    assert bench.counters()["cancelled"] == 1


def test_an_unknown_job_is_an_error(bench):
    with pytest.raises(UnknownJob, match=r"'ghost'.*nothing was cancelled"):
        cancel_job(bench.pulse, "ghost")
    with pytest.raises(InvalidKey):
        cancel_job(bench.pulse, "")


def test_a_worker_that_cannot_be_woken_is_no_error(make_bench, caplog):
    bench = make_bench(broker_url="redis://127.0.0.1:1/0", denyut_redis_url="redis://127.0.0.1:1/0")
    caplog.set_level("INFO")
    hurry(bench.pulse, "w@host|b00t")
    assert "w@host could not be woken" in caplog.text
