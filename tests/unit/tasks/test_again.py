"""Retried by hand, a job becomes a new one: once, with the same message and fresh budgets."""

from __future__ import annotations

import pytest
from celery import chain, chord
from kombu.exceptions import OperationalError
from support import DiedError

from denyut import current_job
from denyut.errors import AlreadyRetried, NotRetryable, UnknownJob
from denyut.states import State
from denyut.tasks import again
from denyut.tasks.again import retry_job
from denyut.tasks.cancel import end_from_outside
from denyut.tasks.dead import is_dead


@pytest.fixture
def runs():
    return []


@pytest.fixture
def flaky(bench, runs):
    """A task that fails until ``flaky.well`` is set."""

    @bench.task(name="t.flaky", bind=True, max_retries=1)
    def flaky(self, *args, **kwargs):
        runs.append((self.request.id, args, kwargs, self.request.retries, current_job().checkpoint_data))
        if not flaky.well:
            current_job().checkpoint("half")
            raise self.retry(exc=ValueError("no"), countdown=0)
        return "done"

    flaky.well = False
    return flaky


def died(bench, task, *args, **options):
    result = task.apply_async(args, **options)
    bench.drain()
    assert bench.record(result.id).state == State.FAILED
    return result.id


def test_a_dead_letter_becomes_a_new_job_with_the_same_message(bench, flaky, runs):
    flaky.max_retries = 0
    old = died(bench, flaky, 1, 2, kwargs={"a": 3}, priority=7)
    flaky.well = True
    new = retry_job(bench.pulse, old)
    assert new != old
    [message] = bench.messages()
    bench.run(message)
    assert runs[-1] == (new, (1, 2), {"a": 3}, 0, None)
    assert message.properties["priority"] == 7
    assert bench.app.AsyncResult(new).get(timeout=5) == "done"
    record = bench.record(new)
    assert (record.retry_of, record.failures, record.attempt) == (old, 0, 1)
    assert bench.record(old).retried_as == new
    assert not is_dead(bench.pulse, old)


def test_its_budget_is_fresh_and_it_may_die_again_as_a_letter_of_its_own(bench, flaky):
    old = died(bench, flaky)
    new = retry_job(bench.pulse, old)
    bench.drain()
    assert bench.record(new).reason == "1 retry spent (max_retries=1)"
    assert is_dead(bench.pulse, new)


def test_it_begins_at_the_checkpoint_only_if_asked(bench, flaky, runs):
    old = died(bench, flaky)
    flaky.well = True
    retry_job(bench.pulse, old, from_checkpoint=True)
    bench.drain()
    assert runs[-1][-1] == "half"
    retry_job(bench.pulse, old, force=True)
    bench.drain()
    assert runs[-1][-1] is None


def test_a_second_retry_names_the_job_that_the_first_has_made(bench, flaky):
    old = died(bench, flaky)
    new = retry_job(bench.pulse, old)
    with pytest.raises(AlreadyRetried, match=new) as caught:
        retry_job(bench.pulse, old)
    assert caught.value.job_id == new
    assert len(bench.messages()) == 1
    other = retry_job(bench.pulse, old, force=True)
    assert other != new
    assert bench.record(old).retried_as == other


def test_who_died_before_the_new_job_was_made_is_continued_under_the_same_id(bench, flaky, valkey):
    old = died(bench, flaky)
    valkey.hset(bench.pulse.keys.job(old).record, "retrying_as", "begun")
    assert retry_job(bench.pulse, old) == "begun"
    assert bench.record(old).retried_as == "begun"


def test_who_died_after_the_new_job_was_made_does_not_make_another(bench, flaky, monkeypatch):
    old = died(bench, flaky)
    with monkeypatch.context() as patch:
        patch.setattr(again, "_end", lambda *_, **__: None)
        new = retry_job(bench.pulse, old)
    with pytest.raises(AlreadyRetried, match=new):
        retry_job(bench.pulse, old)
    assert bench.record(old).retried_as == new
    assert len(bench.messages()) == 1


def test_a_broker_that_is_away_retries_nothing_and_it_can_be_tried_again(bench, flaky, monkeypatch):
    old = died(bench, flaky)

    def away(*_, **__):
        raise OperationalError("away")

    with monkeypatch.context() as patch:
        patch.setattr("denyut.tasks.envelope.Envelope.publish", away)
        with pytest.raises(OperationalError):
            retry_job(bench.pulse, old)
    assert bench.record(old).retried_as is None
    assert is_dead(bench.pulse, old)
    assert retry_job(bench.pulse, old)
    assert len(bench.messages()) == 1


def test_the_idempotency_key_is_the_new_jobs_if_it_is_free(bench, flaky):
    old = died(bench, flaky, idempotency_key="k")
    new = retry_job(bench.pulse, old)
    again_ = flaky.apply_async(idempotency_key="k")
    assert (again_.id, again_.deduplicated) == (new, True)


def test_a_key_that_another_job_has_by_now_is_a_clear_error(bench, flaky):
    old = died(bench, flaky, idempotency_key="k")
    holder = flaky.apply_async(idempotency_key="k")
    with pytest.raises(NotRetryable, match=f"'k' belongs to job {holder.id}"):
        retry_job(bench.pulse, old)
    assert bench.record(old).retried_as is None
    assert is_dead(bench.pulse, old)


def test_links_and_the_rest_of_the_chain_go_on(bench, flaky, runs):
    @bench.task(name="t.after")
    def after(*args):
        runs.append(("after", args))
        return "after"

    flow = chain(flaky.s(1), after.s())
    flow.options["link"] = [after.si("link")]
    result = flow.apply_async()
    bench.drain()
    old = result.parent.id
    flaky.well = True
    retry_job(bench.pulse, old)
    bench.drain()
    assert ("after", ("done",)) in runs
    assert bench.app.AsyncResult(result.id).get(timeout=5) == "after"


def test_it_takes_no_part_in_a_chord_that_has_failed(bench, flaky, runs):
    @bench.task(name="t.body")
    def body(values):
        runs.append(("body", values))

    chord([flaky.s(1), flaky.s(2)])(body.s())
    bench.drain()
    first = next(r for r in runs if r[1] == (1,))[0]
    flaky.well = True
    new = retry_job(bench.pulse, first)
    bench.drain()
    assert bench.record(new).state == State.COMPLETED
    assert bench.record(new).settled
    assert not [r for r in runs if r[0] == "body"]


def test_an_eta_and_an_expiry_of_then_do_not_count_now(bench, flaky):
    @bench.task(name="t.noop")
    def noop():
        return 1

    result = noop.apply_async(countdown=60, expires=61)
    end_from_outside(bench.pulse, result.id, State.EXPIRED, retention=None, running=True)
    retry_job(bench.pulse, result.id)
    [message] = bench.messages()
    assert message.headers["expires"] is None
    assert message.headers["eta"] is None


@pytest.mark.parametrize("state", [State.CANCELLED, State.EXPIRED, State.IGNORED, State.REJECTED])
def test_any_job_that_has_ended_can_be_retried_while_its_message_is_there(bench, flaky, state):
    result = flaky.delay()
    end_from_outside(bench.pulse, result.id, state, retention=None, running=True)
    bench.messages()
    assert bench.record(retry_job(bench.pulse, result.id)).state == State.QUEUED


def test_what_cannot_be_retried_says_why(bench, flaky, valkey):
    flaky.well = True
    completed = flaky.delay().id
    bench.drain()
    with pytest.raises(NotRetryable, match="of a completed job no message is kept"):
        retry_job(bench.pulse, completed)
    queued = flaky.delay().id
    with pytest.raises(NotRetryable, match="is queued: only a job that has ended"):
        retry_job(bench.pulse, queued)
    with pytest.raises(UnknownJob, match="'nobody'"):
        retry_job(bench.pulse, "nobody")
    valkey.hset(bench.pulse.keys.job(queued).record, mapping={"state": "FAILED", "settled": "0"})
    with pytest.raises(NotRetryable, match="has just ended"):
        retry_job(bench.pulse, queued)
    valkey.hset(bench.pulse.keys.job(queued).record, mapping={"settled": "1", "msg": "no json"})
    with pytest.raises(NotRetryable, match="cannot be read here"):
        retry_job(bench.pulse, queued)
    valkey.hdel(bench.pulse.keys.job(queued).record, "msg")
    with pytest.raises(NotRetryable, match="not kept any more"):
        retry_job(bench.pulse, queued)


def test_a_retried_letter_is_remembered_for_its_retention_and_not_for_ever(bench, flaky, valkey):
    old = died(bench, flaky)
    assert valkey.pttl(bench.pulse.keys.job(old).record) == -1
    retry_job(bench.pulse, old)
    assert 604_000_000 < valkey.pttl(bench.pulse.keys.job(old).record) <= 604_800_000


def test_a_job_that_lost_its_workers_is_retried_alike(make_bench):
    bench = make_bench(denyut_max_crashes=0)

    @bench.task(name="t.dies")
    def dies():
        raise DiedError

    from denyut.tasks.recover import recover

    result = dies.delay()
    with pytest.raises(DiedError):
        bench.run(bench.messages()[0])
    bench.crash(result.id)
    recover(bench.pulse, result.id, "lapsed")
    new = retry_job(bench.pulse, result.id)
    assert bench.record(new).crashes == 0
    assert len(bench.messages()) == 1
