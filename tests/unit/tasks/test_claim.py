"""The claim table: what the record says, and what the claim answers."""

from __future__ import annotations

import os
import time

import pytest

from denyut.states import State
from denyut.tasks.claim import Code, Key, claim
from denyut.tasks.envelope import Stamp
from denyut.tasks.finish import Outcome, finish, settle


@pytest.fixture
def job(bench):
    """A queued job, its message taken off the broker."""

    @bench.task(name="t.noop")
    def noop(*args):
        return args

    class Job:
        id = noop.delay(1).id
        stamp = Stamp.of(bench.messages()[0].headers)

        def claim(self, stamp=None, **kwargs):
            options = {"task": "t.noop", "queue": "q", "pid": os.getpid(), "message": lambda: ("{}", Key())}
            return claim(bench.pulse, self.id, stamp=stamp or self.stamp, **{**options, **kwargs})

        def finish(self, fence, state=State.COMPLETED, *, settled=False):
            outcome = Outcome(state=state, result='["application/json", "utf-8", "7"]')
            return finish(bench.pulse, self.id, fence, outcome, digest=None, retention=60, settled=settled)

        @property
        def record(self):
            return bench.record(self.id)

    return Job()


def test_a_queued_job_is_claimed_and_its_lease_names_owner_and_fence(job, bench):
    answer = job.claim()
    assert (answer.code, answer.attempt, answer.crashes) == (Code.CLAIMED, 1, 0)
    client, keys = bench.pulse.store.client, bench.pulse.keys.job(job.id)
    assert client.get(keys.lease).decode() == answer.lease
    assert 0 < client.pttl(keys.lease) <= 6000
    assert client.exists(keys.alive)
    assert job.record.state == State.RUNNING


def test_a_second_delivery_of_a_running_job_is_busy(job):
    job.claim()
    assert job.claim().code == Code.BUSY
    assert job.record.attempt == 1


def test_a_claim_whose_reply_was_lost_answers_the_same_again(job, bench, monkeypatch):
    from redis.exceptions import ConnectionError as Lost

    from denyut.tasks import claim as module

    real, calls = module.CLAIM, []

    def lose_first_reply(client, keys, args):
        calls.append(real(client, keys, args))
        if len(calls) == 1:
            raise Lost("the reply was lost")
        return calls[-1]

    monkeypatch.setattr(module, "CLAIM", lose_first_reply)
    answer = job.claim()
    assert answer.code == Code.CLAIMED
    assert calls[0] == calls[1]
    assert job.record.attempt == 1


def test_a_job_whose_lease_is_gone_is_claimed_with_its_crash_counted_and_a_higher_fence(job, bench):
    first = job.claim()
    bench.crash(job.id)
    second = job.claim()
    assert (second.code, second.attempt, second.crashes) == (Code.CLAIMED, 2, 1)
    assert second.fence > first.fence


def test_a_job_whose_crash_budget_is_spent_is_dead(make_bench):
    bench = make_bench(denyut_max_crashes=1)

    @bench.task(name="t.noop")
    def noop():
        pass

    job_id = noop.delay().id
    message = bench.messages()[0]
    answers = []
    for _ in range(3):
        answers.append(
            claim(
                bench.pulse,
                job_id,
                task="t.noop",
                queue="q",
                stamp=Stamp.of(message.headers),
                pid=1,
                message=lambda: ("{}", Key()),
            ).code
        )
        bench.crash(job_id)
    assert answers == [Code.CLAIMED, Code.CLAIMED, Code.DEAD]
    assert bench.record(job_id).state == State.DEAD


def test_a_completed_unsettled_job_is_busy_while_its_owner_lives_and_replayed_when_it_does_not(job, bench):
    first = job.claim()
    assert job.finish(first.fence)
    assert job.claim().code == Code.BUSY
    bench.crash(job.id)
    again = job.claim()
    assert (again.code, again.detail) == (Code.REPLAY, "COMPLETED")
    assert again.result == '["application/json", "utf-8", "7"]'
    assert settle(bench.pulse, job.id, again.fence, digest=None, retention=60, completed=True)
    assert job.claim().code == Code.DONE


@pytest.mark.parametrize("state", sorted({State.COMPLETED, State.FAILED, State.IGNORED, State.REJECTED}))
def test_an_ended_and_settled_job_is_done(job, state):
    job.finish(job.claim().fence, state, settled=True)
    answer = job.claim()
    assert (answer.code, answer.detail) == (Code.DONE, state)


def test_an_older_generation_is_stale(job, bench):
    bench.pulse.store.client.hset(bench.pulse.keys.job(job.id).record, "gen", 5)
    assert job.claim().code == Code.STALE


def test_a_job_that_is_not_due_is_stale(bench):
    @bench.task(name="t.noop")
    def noop():
        pass

    job_id = noop.apply_async(countdown=60).id
    answer = claim(
        bench.pulse,
        job_id,
        task="t.noop",
        queue="q",
        stamp=Stamp(gen=1),
        pid=1,
        message=lambda: ("{}", Key()),
    )
    assert (answer.code, answer.detail) == (Code.STALE, "SCHEDULED")


def test_a_plain_clients_message_without_a_record_is_adopted_with_its_message(job, bench):
    job.id = "from-a-plain-client"
    answer = job.claim(Stamp(), message=lambda: ('{"the": "message"}', Key()))
    assert answer.code == Code.CLAIMED
    record = bench.pulse.keys.job(job.id).record
    assert bench.pulse.store.client.hget(record, "msg") == b'{"the": "message"}'
    assert bench.counters()["adopted"] == 1


def test_a_recorded_job_whose_retention_is_over_is_done(job, bench):
    bench.pulse.store.client.delete(bench.pulse.keys.job(job.id).record)
    old = Stamp(gen=1, marker=job.stamp.marker, at=job.stamp.at - 3600 * 10**6)
    assert job.claim(old).code == Code.DONE


def test_a_recorded_job_that_redis_lost_since_is_claimed(job, bench):
    bench.pulse.store.client.delete(bench.pulse.keys.job(job.id).record)
    assert job.claim().code == Code.CLAIMED


def test_after_redis_lost_all_its_data_even_an_old_job_is_claimed(job, valkey):
    valkey.flushall()
    old = Stamp(gen=1, marker=job.stamp.marker, at=job.stamp.at - 3600 * 10**6)
    assert job.claim(old).code == Code.CLAIMED


def test_fences_grow_even_across_a_flush(job, valkey):
    first = job.claim()
    valkey.flushall()
    assert job.claim().fence > first.fence


def test_the_time_from_the_last_beat_to_the_new_claim_is_measured(job, bench):
    job.claim()
    before = time.monotonic()
    bench.crash(job.id)
    job.claim()
    most = (time.monotonic() - before + 5) * 10**6
    assert 0 < job.record.recovered_us < most
    assert bench.counters()["recovery_us_count"] == 1


def test_a_conflict_of_a_plain_clients_key_is_claimed_to_be_failed(job):
    job.id = "plain"
    answer = job.claim(
        Stamp(), message=lambda: ("{}", Key(key="k", digest="d", fingerprint="f", conflict="other"))
    )
    assert (answer.code, answer.detail) == (Code.CONFLICT, "other")


def test_a_conflict_whose_reply_was_lost_is_a_conflict_again_and_never_runs(job, monkeypatch):
    from redis.exceptions import ConnectionError as Lost

    from denyut.tasks import claim as module

    real, sent = module.CLAIM, []

    def lose_the_reply_of_the_second(client, keys, args):
        sent.append(real(client, keys, args))
        if len(sent) == 2:
            raise Lost("the reply was lost")
        return sent[-1]

    monkeypatch.setattr(module, "CLAIM", lose_the_reply_of_the_second)
    job.id = "plain"
    answer = job.claim(
        Stamp(), message=lambda: ("{}", Key(key="k", digest="d", fingerprint="f", conflict="other"))
    )
    assert len(sent) == 3
    assert (answer.code, answer.detail) == (Code.CONFLICT, "other")


def test_a_plain_clients_message_that_follows_another_is_watched_before_it_is_parked(job, bench):
    """The worker may die in between; early acknowledged, its message is gone with it."""
    job.id = "plain"
    answer = job.claim(
        Stamp(), message=lambda: ("{}", Key(key="k", digest="d", fingerprint="f", follows="other"))
    )
    assert answer.code == Code.FOLLOW
    keys = bench.pulse.keys
    assert bench.pulse.store.client.zscore(keys.partition(keys.partition_of(job.id)).queued, job.id)
