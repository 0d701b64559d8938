from __future__ import annotations

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from denyut.tasks.saving.snapshot import read_snapshots
from denyut.tasks.saving.writer import confirm, save, write


@pytest.fixture
def task(shelves):
    return shelves.work


def test_a_job_is_written_as_it_is_and_is_off_the_index(shelves, task):
    job = task.delay()
    assert save(shelves.pulse, shelves.client, [job.id]) == 1
    assert shelves.since(job.id) is None
    assert shelves.stored(job.id) == shelves.record(job.id)
    row = shelves.row(job.id)
    assert (row["state"], row["task"], row["settled"]) == ("QUEUED", "t.work", False)


def test_an_ended_job_may_be_forgotten_when_the_store_has_it(shelves, task):
    job = task.delay()
    shelves.bench.drain()
    assert shelves.ttl(job.id) == -1
    save(shelves.pulse, shelves.client, [job.id])
    assert 0 < shelves.ttl(job.id) <= shelves.pulse.settings.retention * 1000
    assert shelves.row(job.id)["state"] == "COMPLETED"


def test_a_job_that_is_over_its_retention_is_forgotten_at_once(make_shelves, valkey):
    shelves = make_shelves(denyut_retention=1.0)
    job = shelves.work.delay()
    shelves.bench.drain()
    valkey.hset(shelves.pulse.keys.job(job.id).record, "forget_at", 1_000_000)
    save(shelves.pulse, shelves.client, [job.id])
    assert shelves.ttl(job.id) == -2
    assert shelves.row(job.id)["state"] == "COMPLETED"


def test_a_job_that_has_changed_since_it_was_read_stays_on_the_index(shelves, task):
    job = task.delay()
    old = read_snapshots(shelves.pulse, shelves.client, [job.id])
    shelves.bench.drain()
    write(shelves.pulse, old)
    assert confirm(shelves.pulse, shelves.client, old, {}) == 0
    assert shelves.since(job.id) is not None
    assert shelves.row(job.id)["state"] == "QUEUED"
    save(shelves.pulse, shelves.client, [job.id])
    assert shelves.stored(job.id) == shelves.record(job.id)


def test_an_old_writer_does_not_bring_an_old_state_back(shelves, task):
    job = task.delay()
    old = read_snapshots(shelves.pulse, shelves.client, [job.id])
    shelves.bench.drain()
    save(shelves.pulse, shelves.client, [job.id])
    write(shelves.pulse, old)
    assert shelves.row(job.id)["state"] == "COMPLETED"


def test_the_story_is_copied_entry_by_entry_and_none_twice(shelves, task):
    job = task.delay(bad=True)
    shelves.bench.crash(job.id)
    shelves.bench.drain()
    save(shelves.pulse, shelves.client, [job.id])
    keys = shelves.pulse.keys.job(job.id)
    told = [entry[b"type"].decode() for _, entry in shelves.client.xrange(keys.events)]
    assert shelves.stories(job.id) == told
    snapshot = read_snapshots(shelves.pulse, shelves.client, [job.id])[0]
    assert snapshot.events == []


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_bytes_that_a_database_does_not_take_come_back_as_they_were(make_shelves, database, request):
    url = request.getfixturevalue("postgres") if database == "postgresql" else None
    shelves = make_shelves(url)
    job = shelves.work.apply_async(countdown=60)
    shelves.client.hset(shelves.pulse.keys.job(job.id).record, mapping={"task": b"a\x00b\xff", "key": "\x00"})
    assert save(shelves.pulse, shelves.client, [job.id]) == 1
    assert shelves.stored(job.id) == shelves.record(job.id)
    assert shelves.row(job.id)["task"] == "a\\x00b\ufffd"


def test_a_row_that_the_store_refuses_is_set_aside_and_holds_nobody_up(shelves, task):
    jobs = [task.delay().id for _ in range(5)]
    with shelves.pulse.database.begin() as connection:
        refuse = f"WHEN new.id = '{jobs[2]}' BEGIN SELECT RAISE(ABORT, 'not this one'); END"
        connection.execute(text(f"CREATE TRIGGER no BEFORE INSERT ON denyut_jobs {refuse}"))
    assert save(shelves.pulse, shelves.client, jobs) == 5
    assert [shelves.row(each) is not None for each in jobs] == [True, True, False, True, True]
    keys = shelves.pulse.keys
    part = keys.partition(keys.partition_of(jobs[2]))
    assert b"not this one" in shelves.client.hget(part.refused, jobs[2])
    assert shelves.ttl(jobs[2]) == -1

    with shelves.pulse.database.begin() as connection:
        connection.execute(text("DROP TRIGGER no"))
    shelves.bench.drain()  # it changes, and is tried again
    save(shelves.pulse, shelves.client, jobs)
    assert shelves.row(jobs[2])["state"] == "COMPLETED"
    assert not shelves.client.exists(part.refused)


def test_a_store_that_cannot_be_written_confirms_nothing(shelves, task):
    job = task.delay()
    with shelves.pulse.database.begin() as connection:
        connection.execute(text("DROP TABLE denyut_jobs"))
    with pytest.raises(OperationalError):
        save(shelves.pulse, shelves.client, [job.id])
    assert shelves.since(job.id) is not None


def test_a_job_that_redis_has_lost_is_off_the_index(shelves, task):
    job = task.delay()
    shelves.client.delete(shelves.pulse.keys.job(job.id).record)
    assert save(shelves.pulse, shelves.client, [job.id]) == 1
    assert shelves.row(job.id) is None
