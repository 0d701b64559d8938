from __future__ import annotations

import sqlite3

import pytest
from sqlalchemy import text
from support import wait_until

from denyut.tasks.saving import applier as module
from denyut.tasks.saving.applier import Applier


def test_it_writes_what_the_store_has_not_seen_the_oldest_first(shelves, monkeypatch):
    monkeypatch.setattr(module, "BATCH", 2)
    ids = [shelves.work.delay().id for _ in range(5)]
    applier = Applier(shelves.pulse)
    for written in (2, 4, 5):
        applier.step()
        assert [shelves.row(each) is not None for each in ids] == [n < written for n in range(5)]
    assert applier.step() == 0


def test_it_leaves_what_is_young_to_those_who_write_through(make_shelves):
    shelves = make_shelves(denyut_store_writes="through")
    shelves.pulse.saving.through = False  # they have died before they could
    job = shelves.work.delay()
    applier = Applier(shelves.pulse)
    assert applier.step() == 0
    wait_until(lambda: applier.step() == 1, 5, "the job to be old enough")
    assert shelves.row(job.id)["state"] == "QUEUED"


def test_nothing_is_lost_while_the_store_is_down_and_all_is_written_when_it_is_back(shelves):
    applier = Applier(shelves.pulse)
    shelves.pulse.saving.breaker._pause = 0.05
    with shelves.pulse.database.begin() as connection:
        connection.execute(text("ALTER TABLE denyut_jobs RENAME TO away"))
    ids = [shelves.work.delay(n == 3).id for n in range(6)]
    shelves.bench.drain()
    assert applier.step() == 0
    assert shelves.pulse.saving.breaker.is_open
    known = shelves.client.hgetall(shelves.pulse.keys.saving())
    assert known[b"failures"] == b"1"
    assert b"no such table" in known[b"error"]
    with shelves.pulse.database.begin() as connection:
        connection.execute(text("ALTER TABLE away RENAME TO denyut_jobs"))
    wait_until(lambda: applier.step() == 6, 5, "the store to be asked again")
    assert all(shelves.stored(each) == shelves.record(each) for each in ids)
    known = shelves.client.hgetall(shelves.pulse.keys.saving())
    assert (known[b"jobs"], b"error" in known) == (b"6", False)


def test_a_store_that_hangs_is_told_and_does_not_hold_the_applier(make_shelves, tmp_path, monkeypatch):
    shelves = make_shelves(denyut_database_timeout=30.0)
    applier = Applier(shelves.pulse)
    applier.step()
    monkeypatch.setattr(applier, "_patience", 0.1)
    job = shelves.work.delay()
    with sqlite3.connect(tmp_path / "jobs.db", isolation_level=None) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert applier.step() == 0
        known = shelves.client.hgetall(shelves.pulse.keys.saving())
        assert known[b"error"] == b"TimeoutError: no answer within 0.1 s"
        other.execute("ROLLBACK")
    wait_until(lambda: shelves.since(job.id) is None, 10, "the write that hung to get through")


def test_it_looks_once_more_when_it_is_asked_to_stop(shelves, monkeypatch):
    monkeypatch.setattr(module, "EVERY", 60.0)
    applier = Applier(shelves.pulse)
    applier.start()
    wait_until(lambda: shelves.client.exists(shelves.pulse.keys.compared()), 5, "its first look")
    job = shelves.work.delay()
    applier.stop()
    assert shelves.row(job.id)["state"] == "QUEUED"


def test_one_worker_writes_and_the_others_help_with_what_waits_for_long(shelves):
    keys, applier = shelves.pulse.keys, Applier(shelves.pulse)
    shelves.client.set(keys.outbox_watch(), "another", px=60_000)
    job = shelves.work.delay()
    assert applier.step() == 0
    part = keys.partition(keys.partition_of(job.id))
    shelves.client.zincrby(part.outbox, -3_000_000, job.id)
    wait_until(applier.step, 10, "its partition to be among those that it helps with")
    assert shelves.since(job.id) is None


def test_another_takes_over_from_one_that_has_died(shelves):
    shelves.client.set(shelves.pulse.keys.outbox_watch(), "another", px=200)
    shelves.work.delay()
    applier = Applier(shelves.pulse)
    wait_until(lambda: applier.step() == 1, 5, "the lease to lapse")


def test_rows_whose_time_is_over_go_in_batches_while_there_is_nothing_to_write(make_shelves, monkeypatch):
    shelves = make_shelves(denyut_store_retention=60.0)
    monkeypatch.setattr(module, "BATCH", 2)
    ids = [shelves.work.delay().id for _ in range(5)]
    shelves.bench.drain()
    over = shelves.pulse.store.now_us() - 61_000_000
    for each in ids[:3]:
        shelves.client.hset(shelves.pulse.keys.job(each).record, "forget_at", over)
    applier = Applier(shelves.pulse)
    while applier.step():
        pass
    assert shelves.row(ids[4])["state"] == "COMPLETED"
    wait_until(lambda: applier.step() == 0 and not any(map(shelves.row, ids[:3])), 5, "the old rows to go")
    assert all(map(shelves.row, ids[3:]))
    assert applier._prune_at > 0


def test_rows_go_also_where_there_is_always_something_to_write(make_shelves, monkeypatch):
    shelves = make_shelves(denyut_store_retention=60.0)
    monkeypatch.setattr(module, "BATCH", 3)
    old = shelves.work.delay().id
    shelves.bench.drain()
    over = shelves.pulse.store.now_us() - 61_000_000
    shelves.client.hset(shelves.pulse.keys.job(old).record, "forget_at", over)
    applier = Applier(shelves.pulse)
    for _ in range(3):
        shelves.work.delay()
        assert applier.step() > 0
    assert shelves.row(old) is None
    monkeypatch.setattr(module, "PRUNE_EVERY", 5.0)
    assert not applier._is_time_to_prune(busy=True)
    applier._prune_at = 0.0
    assert applier._is_time_to_prune(busy=True)


def test_what_is_remembered_of_deleted_jobs_goes_when_its_time_is_over_too(make_shelves):
    shelves = make_shelves(denyut_store_retention=60.0, denyut_gone_retention=1.0)
    job = shelves.work.delay()
    shelves.bench.drain()
    over = shelves.pulse.store.now_us() - 61_000_000
    shelves.client.hset(shelves.pulse.keys.job(job.id).record, "forget_at", over)
    applier = Applier(shelves.pulse)
    applier.step()
    shelves.client.delete(shelves.pulse.keys.job(job.id).record)
    applier.step()
    assert shelves.pulse.jobs.get(job.id, fresh=True).verdict == "gone"

    def is_unknown() -> bool:
        applier._prune_at = 0.0
        applier.step()
        shelves.pulse.saving.absent.drop([job.id])
        return shelves.pulse.jobs.get(job.id, fresh=True).verdict == "unknown"

    wait_until(is_unknown, 10, "the store to forget it", every=0.2)


def test_many_may_run(shelves):
    ids = [shelves.work.delay().id for _ in range(20)]
    appliers = [Applier(shelves.pulse) for _ in range(3)]
    for each in appliers:
        each.start()
    wait_until(lambda: all(shelves.since(i) is None for i in ids), 10, "all jobs to be written")
    for each in appliers:
        each.stop()
    assert all(shelves.stored(i) == shelves.record(i) for i in ids)


@pytest.mark.parametrize("job_id", ["j\x00b", "j\u20ac\n"])
def test_an_odd_id_is_written_too(shelves, job_id):
    keys, client = shelves.pulse.keys, shelves.client
    client.hset(keys.job(job_id).record, mapping={"state": "FAILED", "version": 5, "settled": "1"})
    client.zadd(keys.partition(keys.partition_of(job_id)).outbox, {job_id: 1})
    assert Applier(shelves.pulse).step() == 1
    assert shelves.since(job_id) is None
