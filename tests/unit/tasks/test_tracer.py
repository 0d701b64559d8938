"""A delivery runs, replays, steps aside or fails: as the record says, with Celery none the wiser."""

from __future__ import annotations

import pytest
from celery import Celery, signals
from celery.exceptions import Ignore, Reject
from support import DiedError

from denyut import current_job
from denyut.errors import IdempotencyConflict, InvalidKey, JobDead, LeaseLost
from denyut.states import State
from denyut.tasks.aside import StepAside


@pytest.fixture
def runs():
    return []


@pytest.fixture
def noop(bench, runs):
    @bench.task(name="t.noop")
    def noop(*args):
        runs.append(args)
        return len(runs)

    return noop


def seen(*names):
    """Collect the names of the signals that fire."""
    fired = []

    def listen(name):
        def receiver(sender=None, **kwargs):
            fired.append(name)

        getattr(signals, name).connect(receiver, weak=False)
        return lambda: getattr(signals, name).disconnect(receiver)

    return fired, [listen(name) for name in names]


def test_a_job_runs_completes_stores_its_result_and_is_settled(bench, noop):
    result = noop.delay()
    bench.drain()
    record = bench.record(result.id)
    assert (record.state, record.settled) == (State.COMPLETED, True)
    assert result.get(timeout=5) == 1
    client, keys = bench.pulse.store.client, bench.pulse.keys.job(result.id)
    assert not client.exists(keys.lease, keys.alive)
    assert 0 < client.ttl(keys.record) <= 3600


def test_a_second_delivery_of_an_ended_job_runs_nothing_and_fires_no_signal(bench, noop, runs):
    noop.delay()
    [message] = bench.messages()
    bench.run(message)
    fired, undo = seen("task_prerun", "task_postrun", "task_success", "task_failure")
    again = bench.run(message)
    for each in undo:
        each()
    assert runs == [()]
    assert fired == []
    assert isinstance(again.retval.exception.exc, StepAside)


def test_a_failing_job_is_failed_with_its_error_and_traceback_kept(bench):
    @bench.task(name="t.boom")
    def boom():
        raise ValueError("no good")

    result = boom.delay()
    bench.drain()
    record = bench.record(result.id)
    assert (record.state, record.settled, record.error) == (State.FAILED, True, ("ValueError", "no good"))
    assert "no good" in record.traceback
    with pytest.raises(ValueError, match="no good"):
        result.get(timeout=5)


def test_the_key_of_a_failed_job_is_free_again(bench):
    fail = [True]

    @bench.task(name="t.once", idempotency_key="k:{n}")
    def once(n):
        if fail[0]:
            raise ValueError(n)
        return n

    first = once.delay(1)
    bench.drain()
    fail[0] = False
    second = once.delay(1)
    assert second.id != first.id
    bench.drain()
    assert second.get(timeout=5) == 1
    assert once.delay(1).id == second.id


def test_a_result_that_cannot_be_encoded_is_a_clean_failure(bench):
    @bench.task(name="t.odd")
    def odd():
        return object()

    result = odd.delay()
    bench.drain()
    assert bench.record(result.id).state == State.FAILED
    with pytest.raises(Exception, match="JSON serializable"):
        result.get(timeout=5)


def test_an_exception_that_cannot_be_encoded_is_a_clean_failure(bench):
    class OddError(Exception):
        def __init__(self, a, b):
            super().__init__(a)
            self.lock = __import__("threading").Lock()

    @bench.task(name="t.odd")
    def odd():
        raise OddError(object(), 2)

    result = odd.delay()
    bench.drain()
    assert bench.record(result.id).state == State.FAILED
    with pytest.raises(Exception, match=r"OddError|object"):
        result.get(timeout=5)


@pytest.mark.parametrize(
    ("exc", "state"),
    [(Ignore(), State.IGNORED), (Reject("no", requeue=False), State.REJECTED)],
)
def test_ignore_and_reject_end_in_their_own_states(bench, exc, state):
    @bench.task(name="t.gives_way")
    def gives_way():
        raise exc

    result = gives_way.delay()
    bench.drain()
    record = bench.record(result.id)
    assert (record.state, record.settled) == (state, True)


def test_reject_with_requeue_leaves_the_job_queued_and_the_same_message_runs_again(bench, runs):
    @bench.task(name="t.requeue")
    def requeue():
        runs.append(1)
        if len(runs) == 1:
            raise Reject("later", requeue=True)
        return len(runs)

    result = requeue.delay()
    [message] = bench.messages()
    bench.run(message)
    assert bench.record(result.id).state == State.QUEUED
    bench.run(message)
    assert result.get(timeout=5) == 2
    assert bench.record(result.id).attempt == 2


def test_a_completed_job_whose_worker_died_before_the_callbacks_sends_them_once_and_runs_nothing(
    bench, noop, runs, monkeypatch
):
    from denyut.tasks.attempt import Attempt

    result = noop.apply_async((1,), link=noop.si("callback"))
    [message] = bench.messages()

    def die(self, outcome, stored=None):
        real(self, outcome, stored)
        raise DiedError

    real = Attempt._write
    with monkeypatch.context() as patch:
        patch.setattr(Attempt, "_write", die)
        with pytest.raises(DiedError):
            bench.run(message)
    assert bench.record(result.id).state == State.COMPLETED
    assert bench.messages() == []
    bench.crash(result.id)

    bench.run(message)
    callbacks = bench.messages()
    assert [m.payload[0] for m in callbacks] == [["callback"]]
    assert runs == [(1,)]
    assert result.get(timeout=5) == 1
    assert bench.record(result.id).settled


def test_callbacks_sent_before_a_crash_are_not_sent_again(bench, noop, runs, monkeypatch):
    result = noop.apply_async((1,), link=noop.si("callback"))
    [message] = bench.messages()

    def die(*args, **kwargs):
        raise DiedError

    with monkeypatch.context() as patch:
        patch.setattr(type(noop.backend), "mark_as_done", die)
        with pytest.raises(DiedError):
            bench.run(message)
    first = [m.headers["id"] for m in bench.messages()]
    bench.crash(result.id)
    bench.run(message)
    assert len(first) == 1
    assert bench.messages() == []
    assert bench.record(result.id).settled


def test_an_attempt_that_lost_its_lease_changes_nothing_and_its_result_is_dropped(bench, runs):
    @bench.task(name="t.paused", bind=True)
    def paused(self, mark):
        runs.append(mark)
        if len(runs) == 1:  # this attempt sleeps past its lease, and another one takes over
            bench.crash(self.request.id)
            bench.run(message)
        return mark + str(len(runs))

    result = paused.delay("a")
    [message] = bench.messages()
    late = bench.run(message)
    assert isinstance(late.retval.exception.exc, StepAside)
    assert late.retval.exception.exc.keep
    record = bench.record(result.id)
    assert (record.state, record.attempt, record.crashes) == (State.COMPLETED, 2, 1)
    assert result.get(timeout=5) == "a2"
    assert bench.counters()["lost"] == 1


def test_a_dead_job_fails_in_celery_so_that_nobody_waits_for_ever(make_bench, runs):
    bench = make_bench(denyut_max_crashes=0)

    @bench.task(name="t.kills")
    def kills():
        runs.append(1)
        raise DiedError

    result = kills.delay()
    [message] = bench.messages()
    with pytest.raises(DiedError):
        bench.run(message)
    bench.crash(result.id)
    bench.run(message)
    assert len(runs) == 1
    record = bench.record(result.id)
    assert (record.state, record.settled) == (State.DEAD, True)
    with pytest.raises(JobDead):
        result.get(timeout=5)


def test_a_retry_is_the_next_generation_of_the_same_job(bench):
    @bench.task(name="t.flaky", bind=True, max_retries=2)
    def flaky(self):
        if self.request.retries < 2:
            raise self.retry(countdown=0, exc=ValueError("again"))
        return current_job().attempt

    result = flaky.delay()
    bench.drain()
    record = bench.record(result.id)
    assert (record.state, record.generation, record.attempt, record.failures) == (State.COMPLETED, 3, 3, 2)
    assert result.get(timeout=5) == 3


def test_a_retry_for_later_waits_in_the_store(bench):
    @bench.task(name="t.flaky", bind=True)
    def flaky(self):
        raise self.retry(countdown=60)

    result = flaky.delay()
    bench.drain()
    record = bench.record(result.id)
    assert (record.state, record.generation) == (State.RETRYING, 2)
    assert bench.pulse.store.client.exists(bench.pulse.keys.job(result.id).lease) == 0


def test_a_job_whose_retries_are_spent_has_failed(bench):
    @bench.task(name="t.flaky", bind=True, max_retries=1)
    def flaky(self):
        raise self.retry(countdown=0, exc=ValueError("again"))

    result = flaky.delay()
    bench.drain()
    record = bench.record(result.id)
    assert (record.state, record.failures) == (State.FAILED, 1)


def test_replace_keeps_the_job_under_another_task(bench, noop):
    @bench.task(name="t.replaces", bind=True)
    def replaces(self):
        raise self.replace(noop.s(7))

    result = replaces.delay()
    bench.drain()
    record = bench.record(result.id)
    assert (record.state, record.task, record.generation) == (State.COMPLETED, "t.noop", 2)
    assert result.get(timeout=5) == 1


def test_a_plain_clients_message_is_adopted_and_its_key_holds(bench, noop, runs):
    plain = Celery("plain", broker=bench.app.conf.broker_url, set_as_current=False)
    plain.conf.task_default_queue = bench.app.conf.task_default_queue
    ids = [plain.send_task("t.noop", (1,), headers={"idempotency_key": "k"}).id for _ in range(2)]
    bench.run(bench.messages()[0])
    assert runs == [(1,)]
    assert bench.record(ids[0]).key == "k"
    plain.close()


def test_a_plain_clients_conflicting_key_fails_that_job_alone(bench, noop, runs):
    plain = Celery("plain", broker=bench.app.conf.broker_url, set_as_current=False)
    plain.conf.task_default_queue = bench.app.conf.task_default_queue
    plain.send_task("t.noop", (1,), headers={"idempotency_key": "k"})
    other = plain.send_task("t.noop", (2,), headers={"idempotency_key": "k"}).id
    bench.drain()
    assert runs == [(1,)]
    assert bench.record(other).state == State.FAILED
    with pytest.raises(IdempotencyConflict):
        bench.app.AsyncResult(other).get(timeout=5)
    plain.close()


def test_a_job_for_later_sees_the_time_it_was_meant_for(bench):
    from datetime import datetime

    from support import wait_until

    from denyut.tasks.schedule import Schedule

    @bench.task(name="t.later", bind=True)
    def later(self):
        return self.request.eta

    result = later.apply_async(countdown=0.05)
    wait_until(lambda: Schedule(bench.pulse).look() and bench.drain(), what="the job to be due")
    bench.drain()
    assert datetime.fromisoformat(result.get(timeout=5)).tzinfo is not None


@pytest.mark.parametrize(
    ("key", "why"), [(7, "must be a string"), ("", "must not be empty"), ("k" * 256, "at most")]
)
def test_a_plain_clients_key_that_is_none_fails_its_job_with_a_record_and_runs_nothing(
    bench, noop, runs, key, why
):
    plain = Celery("plain", broker=bench.app.conf.broker_url, set_as_current=False)
    plain.conf.task_default_queue = bench.app.conf.task_default_queue
    sent = plain.send_task("t.noop", (1,), headers={"idempotency_key": key}).id
    [message] = bench.messages()
    bench.run(message)
    bench.run(message)
    record = bench.record(sent)
    assert (record.state, record.settled, record.error[0]) == (State.FAILED, True, "InvalidKey")
    with pytest.raises(InvalidKey, match=why):
        bench.app.AsyncResult(sent).get(timeout=5)
    assert runs == []
    plain.close()


def test_a_plain_clients_arguments_without_a_canonical_form_fail_a_keyed_job_with_a_record(make_bench):
    bench = make_bench(accept_content=["json", "pickle"])

    @bench.task(name="t.noop")
    def noop(*args):
        raise AssertionError("it must not run")

    plain = Celery("plain", broker=bench.app.conf.broker_url, set_as_current=False)
    plain.conf.task_default_queue = bench.app.conf.task_default_queue
    sent = plain.send_task("t.noop", (len,), serializer="pickle", headers={"idempotency_key": "k"}).id
    bench.drain()
    record = bench.record(sent)
    assert (record.state, record.settled, record.error[0]) == (State.FAILED, True, "Unfingerprintable")
    plain.close()


def test_an_attempt_that_loses_its_job_while_it_sends_the_continuation_steps_aside(bench):
    @bench.task(name="t.noop")
    def noop():
        return 1

    noop.apply_async(link=noop.si())
    [message] = bench.messages()
    backend = noop.backend

    def lost(*args, **kwargs):
        raise LeaseLost("another attempt sends it")

    backend.mark_as_done = lost
    info = bench.run(message).info
    assert (info.state, info.retval.keep) == ("IGNORED", True)
