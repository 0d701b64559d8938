from __future__ import annotations

import os
import sqlite3
from time import monotonic

import pytest
from sqlalchemy import event, text
from support import wait_until

from denyut.tasks.saving.applier import Applier


@pytest.fixture
def through(make_shelves):
    return make_shelves(denyut_store_writes="through", denyut_database_timeout=0.3)


def test_an_enqueue_is_in_the_store_when_it_returns(through):
    job = through.work.delay()
    assert through.row(job.id)["state"] == "QUEUED"
    assert through.since(job.id) is None


def test_by_default_an_enqueue_is_left_to_the_applier(shelves):
    job = shelves.work.delay()
    assert shelves.row(job.id) is None
    assert shelves.since(job.id) is not None


def test_a_store_that_hangs_is_waited_for_once_and_not_longer_than_it_may_be(through, tmp_path):
    through.work.delay()
    with sqlite3.connect(tmp_path / "jobs.db", isolation_level=None) as other:
        other.execute("BEGIN EXCLUSIVE")
        began = monotonic()
        first = through.work.delay()
        assert monotonic() - began < 5  # 0.3 s, on a machine that is not busy
        assert through.pulse.saving.breaker.is_open
        began = monotonic()
        others = [through.work.delay() for _ in range(20)]
        assert monotonic() - began < 0.3 * 20
        other.execute("ROLLBACK")
    assert all(through.since(job.id) is not None for job in (first, *others))
    through.pulse.saving.breaker.worked()
    through.pulse.saving.breaker.put_off()
    assert through.pulse.saving.breaker.is_open


def test_nobody_waits_for_a_store_that_was_down_until_it_has_answered(through):
    saving = through.pulse.saving
    saving.breaker.failed(OSError("gone"))
    saving.breaker._until = 0.0  # the pause is over
    first = through.work.delay()
    wait_until(lambda: not saving.breaker.error, 5, "it to be found back, beside the work")
    assert through.since(first.id) is None
    second = through.work.delay()
    assert through.row(second.id)["state"] == "QUEUED"


def test_a_store_that_is_down_delays_no_enqueue_and_loses_none(through):
    with through.pulse.database.begin() as connection:
        connection.execute(text("ALTER TABLE denyut_jobs RENAME TO away"))
    jobs = [through.work.delay() for _ in range(3)]
    assert through.bench.drain() == 3
    with through.pulse.database.begin() as connection:
        connection.execute(text("ALTER TABLE away RENAME TO denyut_jobs"))
    through.pulse.saving.breaker.worked()
    applier = Applier(through.pulse)
    applier._grace = 0.0
    assert applier.step() == 3
    assert all(through.stored(job.id) == through.record(job.id) for job in jobs)


def test_a_forked_process_writes_by_itself(through):
    through.work.delay()  # the thread runs
    job = through.work.apply_async(countdown=60, task_id="mine")
    keys = through.pulse.keys
    through.client.zadd(keys.partition(keys.partition_of("mine")).outbox, {"mine": 1})
    pid = os.fork()
    if pid == 0:
        os._exit(0 if through.pulse.saving.wrote("mine") else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert through.since(job.id) is None


def test_with_through_the_process_that_ends_a_job_writes_its_end(through):
    job = through.work.delay()
    through.bench.drain()
    assert through.row(job.id)["state"] == "COMPLETED"
    assert through.since(job.id) is None


def test_with_through_a_job_that_is_cancelled_by_hand_is_so_in_the_store(through):
    job = through.work.apply_async(countdown=60)
    through.pulse.jobs.cancel(job.id)
    assert through.row(job.id)["state"] == "CANCELLED"


def test_a_job_that_redis_has_is_enqueued_claimed_and_ended_without_a_look_at_the_store(shelves):
    """So it makes no difference to a claim how many jobs are stored."""
    asked = []
    event.listen(shelves.pulse.database.engine, "before_cursor_execute", lambda *args: asked.append(args[2]))
    job = shelves.work.delay()
    shelves.bench.drain()
    assert shelves.bench.record(job.id).state == "COMPLETED"
    assert asked == []
