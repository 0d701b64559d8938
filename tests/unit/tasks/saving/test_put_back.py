"""A Redis that has lost its data, or has come back with older data, gets it back from the store."""

from __future__ import annotations

import pytest

from denyut.states import State
from denyut.tasks.recovery import Recovery
from denyut.tasks.saving.applier import Applier
from denyut.tasks.saving.put_back import compare, put_back, put_back_lost
from denyut.tasks.schedule import Schedule


def save_all(shelves):
    applier = Applier(shelves.pulse)
    while applier.step():
        pass


def lose(shelves):
    """All data of Redis is gone; the broker's messages too."""
    shelves.client.flushall()


def test_a_queued_job_is_published_again_and_runs_once(shelves):
    job = shelves.work.delay()
    save_all(shelves)
    lose(shelves)
    assert compare(shelves.pulse, shelves.client) == 1
    assert shelves.bench.record(job.id).state == State.QUEUED
    Recovery(shelves.pulse).step()
    assert shelves.bench.drain() == 1
    assert shelves.bench.record(job.id).state == State.COMPLETED
    assert shelves.bench.record(job.id).attempt == 1
    save_all(shelves)
    assert shelves.stored(job.id) == shelves.record(job.id)


def test_a_message_that_the_broker_still_has_and_the_copy_run_once(shelves):
    job = shelves.work.delay()
    save_all(shelves)
    messages = shelves.bench.messages()
    lose(shelves)
    compare(shelves.pulse, shelves.client)
    Recovery(shelves.pulse).step()
    for message in [*messages, *shelves.bench.messages()]:
        shelves.bench.run(message)
    assert shelves.bench.record(job.id).attempt == 1


def test_a_scheduled_job_keeps_its_time(shelves):
    job = shelves.work.apply_async(countdown=60)
    due = shelves.bench.record(job.id).due
    save_all(shelves)
    lose(shelves)
    compare(shelves.pulse, shelves.client)
    record = shelves.bench.record(job.id)
    keys = shelves.pulse.keys
    assert (record.state, record.due) == (State.SCHEDULED, due)
    assert shelves.client.zscore(keys.partition(keys.partition_of(job.id)).schedule, job.id) == due
    shelves.client.zadd(keys.partition(keys.partition_of(job.id)).schedule, {job.id: 1})
    shelves.client.hset(keys.job(job.id).record, "due", 1)
    Schedule(shelves.pulse).look()
    assert shelves.bench.drain() == 1


def test_an_ended_job_is_not_run_again_by_a_copy_of_its_message(shelves):
    job = shelves.work.delay()
    [message] = shelves.bench.messages()
    shelves.bench.run(message)
    save_all(shelves)
    lose(shelves)
    shelves.bench.run(message)  # before anybody has compared: the claim asks the store
    record = shelves.bench.record(job.id)
    assert (record.state, record.attempt) == (State.COMPLETED, 1)
    assert shelves.ttl(job.id) > 0 or shelves.since(job.id) is not None


def test_a_job_runs_if_the_store_cannot_be_asked(shelves):
    job = shelves.work.delay()
    [message] = shelves.bench.messages()
    lose(shelves)
    shelves.pulse.saving.breaker.failed(OSError("gone"))
    shelves.bench.run(message)
    assert shelves.bench.record(job.id).state == State.COMPLETED


def test_what_a_plain_client_sends_is_run(shelves):
    shelves.bench.app.send_task("t.work")
    assert shelves.bench.drain() == 1


def test_a_checkpoint_and_the_attempts_come_back(shelves):
    job = shelves.work.delay()
    [message] = shelves.bench.messages()
    record = shelves.pulse.keys.job(job.id).record
    fields = {"checkpoint": "[7]", "attempt": 4, "crashes": 2, "once:t.work:paid": "1"}
    shelves.client.hset(record, mapping=fields)
    save_all(shelves)
    lose(shelves)
    shelves.bench.run(message)
    found = shelves.bench.record(job.id)
    assert (found.attempt, found.crashes, found.checkpoint) == (5, 2, [7])
    assert shelves.client.hget(record, "once:t.work:paid") == b"1"


def test_a_job_that_ran_is_its_workers_for_the_time_of_a_lease(shelves):
    job = shelves.work.delay()
    shelves.bench.messages()
    record = shelves.pulse.keys.job(job.id).record
    mapping = {"state": "RUNNING", "owner": "w|b", "fence": 7, "attempt": 1, "pid": 1, "started_at": 5}
    shelves.client.hset(record, mapping=mapping)
    save_all(shelves)
    lose(shelves)
    compare(shelves.pulse, shelves.client)
    keys = shelves.pulse.keys.job(job.id)
    assert shelves.client.get(keys.lease) == b"w|b#7"
    assert shelves.client.pttl(keys.lease) > 0


def test_a_key_answers_again_for_its_completed_job(shelves):
    job = shelves.work.apply_async(idempotency_key="k")
    shelves.bench.drain()
    save_all(shelves)
    lose(shelves)
    compare(shelves.pulse, shelves.client)
    again = shelves.work.apply_async(idempotency_key="k")
    assert (again.id, again.deduplicated) == (job.id, True)


@pytest.mark.parametrize(("options", "answers"), [
    ({"unique_until": "completed"}, False), ({"unique_for": 50}, True), ({"unique_until": "start"}, False),
    ({"unique_for": 50, "unique_until": "retention"}, True),
])  # fmt: skip
def test_a_key_answers_again_only_as_long_as_its_policy_says(shelves, options, answers):
    job = shelves.work.apply_async(idempotency_key="k", **options)
    shelves.bench.drain()
    save_all(shelves)
    lose(shelves)
    compare(shelves.pulse, shelves.client)
    assert (shelves.work.apply_async(idempotency_key="k").id == job.id) is answers


def test_a_job_that_waits_for_the_next_run_does_not_take_the_key_of_the_present_one(shelves):
    first = shelves.work.apply_async(idempotency_key="k")
    shelves.client.hset(shelves.pulse.keys.job(first.id).record, "attempt", 1)  # it has begun once
    second = shelves.work.apply_async(idempotency_key="k", on_conflict="run_again")
    assert second.id != first.id
    save_all(shelves)
    lose(shelves)
    compare(shelves.pulse, shelves.client)
    records = {job.id: shelves.bench.record(job.id) for job in (first, second)}
    assert (records[first.id].follows, records[second.id].follows) == (None, first.id)
    for _ in range(3):
        Schedule(shelves.pulse).step()
        Recovery(shelves.pulse).step()
        shelves.bench.drain()
    assert shelves.bench.record(first.id).state == State.COMPLETED


def test_a_job_whose_key_was_taken_meanwhile_follows_the_other_so_that_one_runs(shelves):
    first = shelves.work.apply_async(idempotency_key="k")
    save_all(shelves)
    lose(shelves)
    second = shelves.work.apply_async(idempotency_key="k")
    assert second.id != first.id
    compare(shelves.pulse, shelves.client)
    assert shelves.bench.record(first.id).follows == second.id


def test_a_dead_letter_is_on_the_list_again(shelves):
    job = shelves.work.delay(bad=True)
    shelves.bench.drain()
    save_all(shelves)
    lose(shelves)
    compare(shelves.pulse, shelves.client)
    assert [letter.id for letter in shelves.pulse.jobs.dead().letters] == [job.id]


def test_an_older_state_that_is_back_is_replaced_by_the_newer(shelves):
    job = shelves.work.delay()
    record = shelves.pulse.keys.job(job.id).record
    old = shelves.client.hgetall(record)
    shelves.bench.drain()
    save_all(shelves)
    shelves.client.delete(record)
    shelves.client.hset(record, mapping=old)
    assert compare(shelves.pulse, shelves.client) == 1
    assert shelves.bench.record(job.id).state == State.COMPLETED
    assert compare(shelves.pulse, shelves.client) == 0


def test_what_redis_has_as_new_is_left_alone(shelves):
    job = shelves.work.delay()
    save_all(shelves)
    shelves.bench.drain()  # newer than the store
    before = shelves.record(job.id)
    assert put_back(shelves.pulse, shelves.client, [job.id]) == 0
    assert shelves.record(job.id) == before


def test_what_is_over_its_retention_stays_forgotten(shelves, valkey):
    job = shelves.work.delay()
    shelves.bench.drain()
    valkey.hset(shelves.pulse.keys.job(job.id).record, "forget_at", 1_000_000)
    save_all(shelves)
    assert shelves.ttl(job.id) == -2
    assert compare(shelves.pulse, shelves.client) == 0


@pytest.mark.parametrize("jobs", [0, 5])
def test_it_is_looked_once_for_each_loss(shelves, jobs):
    for _ in range(jobs):
        shelves.work.delay()
    save_all(shelves)
    assert put_back_lost(shelves.pulse, shelves.client) is None, "the applier has looked"
    lose(shelves)
    assert put_back_lost(shelves.pulse, shelves.client) == jobs
    assert put_back_lost(shelves.pulse, shelves.client) is None


def test_pages_are_turned(shelves):
    for _ in range(7):
        shelves.work.delay()
    save_all(shelves)
    lose(shelves)
    assert compare(shelves.pulse, shelves.client, page=3) == 7


def test_jobs_of_another_deployment_are_left_alone(shelves, make_shelves):
    shelves.work.delay()
    save_all(shelves)
    other = make_shelves()
    assert compare(other.pulse, other.client) == 0
