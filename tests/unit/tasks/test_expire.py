"""A job that ended in the store because it came too late: Celery hears of it as of any expired task."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from celery import chord, signals
from celery.exceptions import ChordError
from support import wait_until

from denyut.states import State
from denyut.tasks.due import move_due
from denyut.tasks.expire import tell_expired


def nothing():
    return None


def part(n):
    return n


def total(numbers):
    return sum(numbers)


def expire(bench, job_id, **options):
    """End the job as the scheduler does that finds it too late."""
    client, keys = bench.pulse.store.client, bench.pulse.keys
    client.hset(keys.job(job_id).record, mapping={"due": 1, "expires": 2})
    return move_due(bench.pulse, [job_id], **options)


def test_its_result_is_revoked_and_the_signal_is_sent(bench):
    task = bench.task(name="t.late")(nothing)
    heard = []

    def hear(**told):
        heard.append((told["request"].id, told["expired"], told["terminated"]))

    signals.task_revoked.connect(hear)
    try:
        job = task.apply_async(countdown=60)
        assert expire(bench, job.id) == 1
    finally:
        signals.task_revoked.disconnect(hear)
    assert job.state == "REVOKED"
    assert heard == [(job.id, True, False)]
    assert (bench.record(job.id).state, bench.record(job.id).error[0]) == (State.EXPIRED, "Expired")


def test_a_chord_that_it_is_part_of_fails_with_its_reason(bench):
    task = bench.task(name="t.part")(part)
    body = bench.task(name="t.body")(total)
    result = chord([task.si(1).set(countdown=60), task.si(2)])(body.s())
    bench.drain()
    late = result.parent.children[0]
    expire(bench, late.id)
    with pytest.raises(ChordError, match="expired"):
        bench.app.AsyncResult(result.id).get(timeout=5)


def test_a_job_without_a_result_leaves_none(bench):
    task = bench.task(name="t.quiet", ignore_result=True)(nothing)
    job = task.apply_async(countdown=60)
    expire(bench, job.id)
    assert bench.app.backend.get_state(job.id) == "PENDING"


def test_watchers_hear_of_it_where_there_are_any(bench):
    task = bench.task(name="t.late")(nothing)
    heard = []

    def hear(event):
        heard.append(event)
        receiver.should_stop = True

    patterns = bench.pulse.store.client.pubsub_numpat
    with bench.app.connection_for_read() as connection, ThreadPoolExecutor(1) as pool:
        receiver = bench.app.events.Receiver(connection, handlers={"task-revoked": hear})
        capture = pool.submit(receiver.capture, timeout=10, wakeup=False)
        wait_until(patterns, what="the watcher to listen")
        job = task.apply_async(countdown=60)
        expire(bench, job.id, events=True)
        capture.result()
    assert (heard[0]["uuid"], heard[0]["expired"]) == (job.id, True)


def test_a_message_that_cannot_be_read_here_does_not_keep_its_caller_waiting(bench, caplog):
    task = bench.task(name="t.odd", serializer="pickle")(nothing)
    bench.app.conf.accept_content = ["json"]
    job = task.apply_async(countdown=60)
    expire(bench, job.id)
    assert job.state == "REVOKED"
    assert "cannot be read here" in caplog.text


def test_without_a_message_it_is_settled_all_the_same(bench):
    job = bench.task(name="t.late")(nothing).apply_async(countdown=60)
    client, record = bench.pulse.store.client, bench.pulse.keys.job(job.id).record
    client.hset(record, mapping={"state": "EXPIRED", "fence": 7, "settled": 0})
    tell_expired(bench.pulse, job.id, b"", 7, None, json.dumps(["Expired", "late"]))
    assert bench.record(job.id).settled
