"""Every kind of event is in the story of the job that it happened to, with who and evidence."""

from __future__ import annotations

import json
import os

import pytest
from celery.exceptions import Reject
from support import DiedError

from denyut import current_job
from denyut.errors import IdempotencyConflict
from denyut.states import State
from denyut.tasks.again import retry_job
from denyut.tasks.cancel import end_from_outside
from denyut.tasks.finish import Outcome, finish
from denyut.tasks.history import job_events
from denyut.tasks.node import current_node
from denyut.tasks.recover import recover


@pytest.fixture
def me():
    """Who this process is: tests of workers give it other names."""
    return {"by": current_node().owner, "pid": os.getpid()}


@pytest.fixture
def noop(bench):
    @bench.task(name="t.noop")
    def noop(x=None):
        return x

    return noop


@pytest.fixture
def dies(bench):
    @bench.task(name="t.dies")
    def dies():
        if current_job().attempt == 1:
            raise DiedError

    return dies


def kinds(bench, job_id):
    return [event.kind for event in job_events(bench.pulse, job_id)]


def the(bench, job_id, kind):
    (event,) = (each for each in job_events(bench.pulse, job_id) if each.kind == kind)
    return event


def who(event):
    return {"by": event.by, "pid": event.pid}


def start_and_die(bench, task, **options):
    result = task.apply_async(**options)
    [message] = bench.messages()
    with pytest.raises(DiedError):
        bench.run(message)
    return result.id, message


def test_a_job_that_goes_well_has_no_stream_and_a_story_all_the_same(bench, noop, valkey, me):
    result = noop.delay(1)
    bench.drain()
    assert valkey.exists(bench.pulse.keys.job(result.id).events) == 0
    enqueued, claimed, completed = job_events(bench.pulse, result.id)
    assert [e.kind for e in (enqueued, claimed, completed)] == ["enqueued", "claimed", "completed"]
    assert enqueued.at <= claimed.at <= completed.at
    assert "@" in enqueued.by
    assert who(claimed) == who(completed) == me
    assert (claimed.attempt, claimed.generation, claimed.fence > 0) == (1, 1, True)


def test_a_queued_job_tells_who_enqueued_it(bench, noop):
    (enqueued,) = job_events(bench.pulse, noop.delay().id)
    assert enqueued.kind == "enqueued"
    assert "@" in enqueued.by


def test_an_unknown_job_has_no_story(bench):
    assert job_events(bench.pulse, "nobody") == []


def test_a_checkpoint_begins_the_stream_which_tells_first_what_came_before(bench, me):
    @bench.task(name="t.checks")
    def checks():
        current_job().checkpoint({"row": 7})

    result = checks.delay()
    bench.drain()
    events = job_events(bench.pulse, result.id)
    assert [e.kind for e in events][:4] == ["enqueued", "claimed", "checkpoint", "completed"]
    assert json.loads(events[2].data) == {"row": 7}
    assert who(events[1]) == me
    assert events == sorted(events, key=lambda e: e.at)


def test_a_crash_tells_who_was_lost_when_it_last_lived_and_who_noticed(bench, dies, me):
    job_id, _ = start_and_die(bench, dies)
    bench.crash(job_id)
    recover(bench.pulse, job_id, "lapsed")
    assert kinds(bench, job_id) == ["enqueued", "claimed", "crashed", "published"]
    crashed = the(bench, job_id, "crashed")
    assert who(crashed) == me
    assert (crashed.more["lost"], crashed.more["lost_pid"]) == (current_node().owner, str(os.getpid()))
    assert int(crashed.data) > 0
    assert crashed.fence == the(bench, job_id, "claimed").fence
    published = the(bench, job_id, "published")
    assert (published.data, published.generation, who(published)) == ("crashed", 2, me)
    bench.drain()
    assert kinds(bench, job_id)[4:6] == ["recovered", "claimed"]
    assert kinds(bench, job_id)[-1] in {"completed", "settled"}


def test_a_copy_of_a_running_job_is_refused_as_busy_and_says_under_which_lease(bench, dies, me):
    job_id, message = start_and_die(bench, dies)
    bench.run(message)
    busy = the(bench, job_id, "busy")
    assert busy.data.startswith(f"{current_node().owner}#")
    assert (busy.generation, who(busy)) == (1, me)


def test_a_copy_of_an_ended_job_is_refused_as_done_and_its_story_ends_with_its_record(bench, noop, valkey):
    result = noop.delay()
    [message] = bench.messages()
    bench.run(message)
    bench.run(message)
    assert kinds(bench, result.id) == ["enqueued", "claimed", "completed", "done"]
    assert the(bench, result.id, "done").data == "COMPLETED"
    assert 0 < valkey.pttl(bench.pulse.keys.job(result.id).events) <= 3_600_000


def test_an_older_copy_is_refused_as_stale_and_names_its_generation(bench, dies):
    job_id, message = start_and_die(bench, dies)
    bench.crash(job_id)
    recover(bench.pulse, job_id, "lapsed")
    bench.run(message)
    stale = the(bench, job_id, "stale")
    assert (stale.generation, stale.data) == (1, "QUEUED")


def test_a_storm_of_copies_is_told_five_times_and_then_as_a_count(bench, dies, me):
    job_id, message = start_and_die(bench, dies)
    for _ in range(12):
        bench.run(message)
    busy = [e for e in job_events(bench.pulse, job_id) if e.kind == "busy"]
    assert [e.count for e in busy] == [1, 1, 1, 1, 1, 7]
    assert who(busy[-1]) == me


def test_duplicates_and_conflicts_of_the_key_name_their_producers(bench, noop):
    first = noop.apply_async((1,), idempotency_key="k")
    noop.apply_async((1,), idempotency_key="k")
    with pytest.raises(IdempotencyConflict):
        noop.apply_async((2,), idempotency_key="k")
    assert kinds(bench, first.id) == ["enqueued", "duplicate", "conflict"]
    assert "@" in the(bench, first.id, "duplicate").by
    assert the(bench, first.id, "conflict").data == "key k"


def test_the_same_id_again_is_a_duplicate_too(bench, noop):
    noop.apply_async(task_id="given")
    noop.apply_async(task_id="given")
    assert the(bench, "given", "duplicate").data == "the same id"


def test_a_retry_tells_the_error_that_it_is_for(bench, me):
    @bench.task(name="t.retries", bind=True)
    def retries(self):
        if not self.request.retries:
            raise self.retry(exc=KeyError("x"), countdown=0)

    result = retries.delay()
    bench.drain()
    retrying = the(bench, result.id, "retrying")
    assert (json.loads(retrying.data)[0], retrying.attempt, who(retrying)) == ("KeyError", 1, me)
    claimed = [e for e in job_events(bench.pulse, result.id) if e.kind == "claimed"]
    assert [e.attempt for e in claimed] == [1, 2]


def test_a_write_that_came_too_late_is_told_with_its_fence(bench, dies):
    job_id, _ = start_and_die(bench, dies)
    fence = bench.record(job_id).fence
    outcome = Outcome(state=State.COMPLETED)
    assert not finish(bench.pulse, job_id, fence - 1, outcome, digest=None, retention=60, settled=True)
    lost = the(bench, job_id, "lost")
    assert (lost.fence, lost.data) == (fence - 1, "COMPLETED")


def test_an_end_from_outside_tells_who_did_it(bench, noop, me):
    result = noop.delay()
    end_from_outside(bench.pulse, result.id, State.CANCELLED, retention=None, running=True)
    cancelled = the(bench, result.id, "cancelled")
    assert who(cancelled) == me


def test_a_lost_message_that_was_published_again_tells_by_whom(bench, noop, me):
    result = noop.delay()
    bench.messages()
    recover(bench.pulse, result.id, "lost")
    published = the(bench, result.id, "published")
    assert (published.data, who(published)) == ("lost", me)


def test_a_message_given_back_is_in_the_story(bench, me):
    @bench.task(name="t.rejects")
    def rejects():
        raise Reject("later", requeue=True)

    result = rejects.delay()
    bench.run(bench.messages()[0])
    assert who(the(bench, result.id, "requeued")) == me


def test_a_dead_job_tells_the_reason_and_that_celery_heard_of_it(make_bench):
    bench = make_bench(denyut_max_crashes=0)

    @bench.task(name="t.dies")
    def dies():
        raise DiedError

    job_id, _ = start_and_die(bench, dies)
    bench.crash(job_id)
    recover(bench.pulse, job_id, "lapsed")
    assert kinds(bench, job_id) == ["enqueued", "claimed", "crashed", "dead", "settled"]
    assert the(bench, job_id, "dead").data == "lost 1 worker (max_crashes=0)"


def test_a_retry_by_hand_is_in_the_story_of_the_old_job(bench, noop):
    result = noop.delay()
    end_from_outside(bench.pulse, result.id, State.CANCELLED, retention=None, running=True)
    new = retry_job(bench.pulse, result.id)
    retried = the(bench, result.id, "retried")
    assert (retried.data, retried.pid) == (new, os.getpid())


def test_a_due_job_with_a_story_tells_how_late_it_was(bench):
    from denyut.tasks.due import move_due

    @bench.task(name="t.retries", bind=True)
    def retries(self):
        raise self.retry(countdown=0.01)

    result = retries.delay()
    bench.run(bench.messages()[0])
    record = bench.pulse.keys.job(result.id).record
    bench.pulse.store.client.hset(record, "due", 1_000_000)
    move_due(bench.pulse, [result.id])
    assert int(the(bench, result.id, "due").data) > 0


def test_a_stream_lives_as_long_as_its_job_also_while_it_waits(bench, dies, valkey):
    job_id, _ = start_and_die(bench, dies)
    bench.crash(job_id)
    recover(bench.pulse, job_id, "lapsed")
    assert valkey.pttl(bench.pulse.keys.job(job_id).events) == -1
    bench.drain()
    assert 0 < valkey.pttl(bench.pulse.keys.job(job_id).events) <= 3_600_000


def test_what_cannot_be_read_of_an_entry_does_not_hide_the_others(bench, noop, valkey):
    result = noop.delay()
    valkey.xadd(bench.pulse.keys.job(result.id).events, {"type": "odd", "attempt": "x", "new": b"\xff"})
    odd = the(bench, result.id, "odd")
    assert (odd.attempt, odd.more["new"]) == (0, "\ufffd")
