"""What Celery hears of a cancelled job."""

from __future__ import annotations

import pytest
from celery import chain, chord
from celery.exceptions import ChordError, TaskRevokedError

from denyut.states import State
from denyut.tasks.cancellation import cancel_job, cancel_waiting
from denyut.tasks.recover import recover
from denyut.tasks.tell import cancelled_why


@pytest.fixture
def noop(bench):
    @bench.task(name="t.noop")
    def noop(*args):
        return 1

    return noop


@pytest.fixture
def errback(bench):
    @bench.task(name="t.errback")
    def errback(task_id):
        return task_id

    return errback


def cancel(bench, job_id):
    return cancel_job(bench.pulse, job_id, reason="no need", by="me")


def test_its_result_says_revoked_and_why(bench, noop):
    result = noop.delay()
    cancel(bench, result.id)
    assert result.state == "REVOKED"
    with pytest.raises(TaskRevokedError, match="cancelled by me: no need"):
        result.get(timeout=5)


def test_a_revoked_job_has_its_result_whether_or_not_the_revoke_of_this_celery_stores_it(bench, noop):
    result = noop.delay()
    assert cancel_waiting(bench.pulse, result.id, "revoked", revoked=True)
    assert result.state == "REVOKED"
    with pytest.raises(TaskRevokedError, match="revoked"):
        result.get(timeout=5)


def test_its_error_link_is_called(bench, noop, errback):
    result = noop.apply_async(link_error=errback.s())
    bench.messages()
    cancel(bench, result.id)
    assert [m.payload[0] for m in bench.messages()] == [[result.id]]


def test_what_is_chained_after_it_never_runs_and_whoever_waits_for_that_is_told(bench, noop):
    last = chain(noop.s(), noop.s(), noop.s()).apply_async()
    first = last.parent.parent
    cancel(bench, first.id)
    for result in (first, last.parent, last):
        with pytest.raises(TaskRevokedError, match="no need"):
            result.get(timeout=5)
    bench.drain()
    assert bench.record(last.parent.id) is None, "it was never enqueued"


def test_the_chord_of_a_cancelled_member_fails_and_names_the_member(bench, noop):
    body = chord([noop.s(), noop.s()])(noop.s())
    cancelled = body.parent.children[1]
    cancel(bench, cancelled.id)
    bench.drain()
    error = body.get(timeout=5, propagate=False)
    assert isinstance(error, ChordError)
    assert cancelled.id in str(error)
    assert "cancelled by me: no need" in str(error)


@pytest.mark.parametrize("chained", [False, True])
def test_where_it_is_configured_so_the_chord_goes_on_without_a_cancelled_member(make_bench, chained):
    bench = make_bench(denyut_on_cancel="skip")

    @bench.task(name="t.noop")
    def noop(*args):
        return 1

    @bench.task(name="t.body")
    def gather(values):
        return values

    member = chain(noop.s(), noop.s()) if chained else noop.s()
    body = chord([noop.s(), member])(gather.s())
    last = body.parent.children[1]
    cancel(bench, last.parent.id if chained else last.id)
    bench.drain()
    assert last.state == "REVOKED"
    assert body.get(timeout=5, disable_sync_subtasks=False, propagate=False) == [1, None]


def test_nothing_is_stored_for_a_job_whose_result_is_ignored(bench):
    @bench.task(name="t.quiet", ignore_result=True)
    def quiet():
        pass

    result = quiet.delay()
    cancel(bench, result.id)
    assert bench.record(result.id).state == State.CANCELLED
    assert result.state == "PENDING"


def test_where_celery_cannot_be_told_recovery_tells_when_the_lease_is_over(bench, noop, errback):
    result = noop.apply_async(link_error=errback.s())
    bench.messages()
    backend, real = noop.backend, noop.backend.store_result
    backend.store_result = lambda *args, **kwargs: 1 / 0
    cancel(bench, result.id)
    backend.store_result = real
    record = bench.record(result.id)
    assert (record.state, record.settled) == (State.CANCELLED, False)
    bench.crash(result.id)
    assert recover(bench.pulse, result.id, "lapsed") == "CANCELLED"
    with pytest.raises(TaskRevokedError, match="no need"):
        result.get(timeout=5)
    assert [m.payload[0] for m in bench.messages()] == [[result.id]], "the error link"
    assert bench.record(result.id).settled


def test_who_cancelled_it_is_in_the_record(bench, noop):
    job_id = noop.delay().id
    assert cancelled_why(bench.pulse, job_id) == ""
    cancel(bench, job_id)
    assert cancelled_why(bench.pulse, job_id) == "cancelled by me: no need"
