"""The worker's main process: what it does with a message that stepped aside, or whose child was lost."""

from __future__ import annotations

import os

import pytest
from billiard.einfo import ExceptionInfo
from billiard.pool import MaybeEncodingError
from celery.exceptions import TimeLimitExceeded, WorkerLostError
from support import DiedError

from denyut.states import State
from denyut.tasks.aside import StepAside
from denyut.tasks.held import held
from denyut.tasks.request import JobRequest


def info(exc):
    try:
        raise exc
    except type(exc):
        return ExceptionInfo()


@pytest.fixture
def receive(bench):
    """Send a job and receive its message as a worker's main process does."""

    @bench.task(name="t.noop", acks_late=True)
    def noop():
        return 1

    acks = []

    def receive():
        result = noop.delay()
        [message] = bench.messages()
        request = JobRequest(
            message,
            app=bench.app,
            task=noop,
            hostname="w",
            on_ack=lambda *_: acks.append("ack"),
            on_reject=lambda *_: acks.append("reject"),
        )
        return result, message, request

    receive.acks = acks
    return receive


def test_a_received_message_is_held_until_celery_drops_it(receive):
    result, _, request = receive()
    assert result.id in held().snapshot_older_than(0)
    del request
    assert result.id not in held().snapshot_older_than(0)


def test_a_delivery_that_stepped_aside_is_acknowledged_without_a_result(receive, bench):
    result, _, request = receive()
    request.on_failure(info(StepAside("DONE")), return_ok=True)
    assert receive.acks == ["ack"]
    assert result.state == "PENDING"


def test_a_lost_childs_running_job_is_published_again_at_once(receive, bench):
    result, message, request = receive()

    noop = bench.app.tasks["t.noop"]

    def die(*args, **kwargs):
        raise DiedError

    noop.run = die
    with pytest.raises(DiedError):
        bench.run(message)
    request.worker_pid = os.getpid()
    events = []
    request.send_event = lambda kind, **_: events.append(kind)
    request.on_failure(info(WorkerLostError("signal 9")))
    assert events == ["task-retried"], "who watches is not told of a failure"
    record = bench.record(result.id)
    assert (record.state, record.crashes, record.generation) == (State.QUEUED, 1, 2)
    assert receive.acks == ["ack"]
    assert result.state == "PENDING"
    assert len(bench.messages()) == 1


def test_a_hard_time_limit_is_a_failure_of_the_job(receive, bench):
    result, message, request = receive()
    noop = bench.app.tasks["t.noop"]
    request.worker_pid = os.getpid()

    def over_the_limit(*args):
        request.on_failure(info(TimeLimitExceeded(5)))
        request.on_timeout(soft=False, timeout=5)

    noop.run = over_the_limit
    bench.run(message)
    record = bench.record(result.id)
    assert (record.state, record.error[0], record.settled) == (State.FAILED, "TimeLimitExceeded", True)


def test_an_expired_copy_does_not_end_the_running_original(receive, bench):
    result, message, request = receive()
    noop = bench.app.tasks["t.noop"]
    seen = []

    def meanwhile(*args):
        request._announce_revoked("expired", False, None, True)
        seen.append(bench.record(result.id).state)
        return 1

    noop.run = meanwhile
    bench.run(message)
    assert seen == [State.RUNNING]
    assert bench.record(result.id).state == State.COMPLETED
    assert result.get(timeout=5) == 1


@pytest.mark.parametrize(("expired", "state"), [(False, State.CANCELLED), (True, State.EXPIRED)])
def test_a_revoked_or_expired_job_ends_in_its_own_state_and_is_never_recovered(
    receive, bench, expired, state
):
    from denyut.tasks.recover import recover

    result, message, request = receive()
    request._announce_revoked("revoked", False, None, expired)
    record = bench.record(result.id)
    assert (record.state, record.settled) == (state, True)
    assert recover(bench.pulse, result.id, "lost") == "NOTHING"
    assert bench.run(message).info.state == "IGNORED"


def test_a_job_that_is_rejected_to_be_requeued_after_an_early_ack_is_published_again(receive, bench):
    from celery.exceptions import Reject

    result, message, request = receive()
    noop = bench.app.tasks["t.noop"]

    def reject(*args, **kwargs):
        raise Reject("later", requeue=True)

    noop.run = reject
    bench.run(message)
    request.acknowledge()
    request.on_failure(info(Reject("later", requeue=True)), return_ok=True)
    assert [m.headers["id"] for m in bench.messages()] == [result.id]


def test_the_time_limit_of_an_attempt_that_lost_its_job_does_not_end_the_other_ones(receive, bench):
    result, message, request = receive()
    noop = bench.app.tasks["t.noop"]
    request.worker_pid = os.getpid() + 1  # the attempt that was paused past its lease ran there

    def meanwhile(*args):
        request.on_failure(info(TimeLimitExceeded(5)))
        request.on_timeout(soft=False, timeout=5)
        return 1

    noop.run = meanwhile
    bench.run(message)
    assert bench.record(result.id).state == State.COMPLETED
    assert result.get(timeout=5) == 1


def test_a_process_that_was_told_to_end_is_no_failure_of_its_job(receive, bench):
    result, message, request = receive()
    noop = bench.app.tasks["t.noop"]

    def die(*args):
        raise DiedError

    noop.run = die
    with pytest.raises(DiedError):
        bench.run(message)
    request.worker_pid = os.getpid()
    request.on_failure(info(SystemExit(-241)))
    record = bench.record(result.id)
    assert (record.state, record.crashes) == (State.QUEUED, 1)
    assert result.state == "PENDING"


def test_an_error_of_the_pool_that_the_tracer_has_not_seen_ends_the_job(receive, bench):
    result, message, request = receive()
    noop = bench.app.tasks["t.noop"]
    request.worker_pid = os.getpid()

    def meanwhile(*args):
        request.on_failure(info(MaybeEncodingError(TypeError("cannot pickle"), object())))

    noop.run = meanwhile
    bench.run(message)
    record = bench.record(result.id)
    assert (record.state, record.error[0], record.settled) == (State.FAILED, "MaybeEncodingError", True)
    assert result.state == "FAILURE"


def test_an_error_of_the_pool_after_the_end_of_the_job_changes_nothing(receive, bench):
    result, message, request = receive()
    bench.run(message)
    request.worker_pid = os.getpid()
    request.on_failure(info(MaybeEncodingError(TypeError("cannot pickle"), object())))
    assert bench.record(result.id).state == State.COMPLETED
    assert result.get(timeout=5) == 1


def test_a_message_that_cannot_be_decoded_in_the_pool_fails_its_job(receive, bench):
    result, _, request = receive()
    request.worker_pid = os.getpid()
    request.on_failure(info(ValueError("not JSON")))
    assert bench.record(result.id).state == State.FAILED
    assert result.state == "FAILURE"


def test_a_task_that_runs_out_of_memory_does_not_end_the_main_process(receive, bench):
    result, message, request = receive()
    noop = bench.app.tasks["t.noop"]

    def greedy(*args):
        raise MemoryError("x")

    noop.run = greedy
    traced = bench.run(message)
    request.on_failure(traced.retval, return_ok=True)
    assert receive.acks == ["ack"]
    assert bench.record(result.id).state == State.FAILED
    with pytest.raises(MemoryError):
        result.get(timeout=5)


@pytest.mark.parametrize("killed", [False, True])
def test_a_job_that_was_cancelled_while_it_ran_is_announced_as_revoked(receive, bench, killed):
    from celery import signals

    from denyut.tasks.aside import Stopped
    from denyut.tasks.cancellation import cancel_job

    result, message, request = receive()
    heard, events = [], []
    request.send_event = lambda kind, **_: events.append(kind)
    request.worker_pid = os.getpid()

    def body(*args):
        cancel_job(bench.pulse, result.id)
        request.on_failure(info(WorkerLostError("signal 9") if killed else Stopped("enough")))

    def hear(sender, request, terminated, **_):
        heard.append((request.id, terminated))

    signals.task_revoked.connect(hear)
    bench.app.tasks["t.noop"].run = body
    bench.run(message)
    signals.task_revoked.disconnect(hear)
    assert (heard, events) == ([(result.id, True)], ["task-revoked"])
    assert receive.acks == ["ack"]
