"""The job store is taken away under load: jobs go on, nothing is lost, and at the end both say the same."""

from __future__ import annotations

import os
import signal
import sqlite3
from time import monotonic

import pytest
from nodes.postgres import PrivatePostgres, find_programs
from sqlalchemy import select, text
from support import wait_until

from denyut.database.exclusive import exclusive
from denyut.database.revision import TABLE
from denyut.database.tables import tables
from denyut.states import TERMINAL
from denyut.tasks.record import FIELDS, JobRecord
from denyut.tasks.saving.snapshot import from_text

JOBS = 150


@pytest.fixture
def own_postgres():
    """A server of this test alone, to be paused and killed."""
    programs = find_programs()
    assert programs is not None
    server = PrivatePostgres()
    try:
        server.start(programs)
        yield server
    finally:
        server.signal_all(signal.SIGCONT)
        server.stop()


class Load:
    """A worker with a job store, and jobs in it that end in many ways."""

    def __init__(self, worker, url: str, writes: str) -> None:
        self.node = worker("apps.stored", env={"STORE_URL": url, "STORE_WRITES": writes}, start=False)
        self.pulse = self.node.app.denyut
        self.pulse.database.create()
        self.node.start()
        self.ids: list[str] = []
        self.longest = 0.0

    def enqueue(self, many: int) -> None:
        for _ in range(many):
            began = monotonic()
            self.ids.append(self.node.module.work.delay(len(self.ids)).id)
            self.longest = max(self.longest, monotonic() - began)

    def ended(self) -> bool:
        return all(self._state(job_id) in TERMINAL for job_id in self.ids)

    def _state(self, job_id: str):
        values = self.pulse.store.client.hmget(self.pulse.keys.job(job_id).record, *FIELDS)
        found = JobRecord.from_redis(job_id, values)
        return found.state if found is not None and found.settled else None

    def backlog(self) -> int:
        client = self.pulse.store.client
        return sum(client.zcard(part.outbox) for part in self.pulse.keys.all_partitions())

    def compare(self) -> None:
        """Compare store and Redis, job by job: the record to the byte, and the story entry by entry."""
        jobs, events = tables()
        with self.pulse.database.begin() as connection:
            rows = {row.id: row for row in connection.execute(select(jobs))}
            told = connection.execute(select(events).order_by(events.c.ms, events.c.seq)).all()
        assert rows.keys() == set(self.ids)
        client = self.pulse.store.client
        for job_id in self.ids:
            keys = self.pulse.keys.job(job_id)
            stored, known = from_text(rows[job_id].record), client.hgetall(keys.record)
            for fields in (stored, known):
                fields.pop(b"copied", None)
            assert stored == known, job_id
            story = [entry[b"type"].decode() for _, entry in client.xrange(keys.events)]
            assert [event.type for event in told if event.job_id == job_id] == story
            is_dead_letter = b"budget" in known
            assert (client.pttl(keys.record) == -1) == is_dead_letter

    def finish(self) -> None:
        wait_until(self.ended, 60, "all jobs to end")
        wait_until(lambda: self.backlog() == 0, 60, "the store to have all of them")
        self.compare()

    def close(self) -> None:
        self.pulse.saving.close()
        self.pulse.database.close()
        self.pulse.store.close()


@pytest.fixture
def load(worker, valkey):
    made: list[Load] = []

    def make(url: str, writes: str = "behind") -> Load:
        made.append(Load(worker, url, writes))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize("writes", ["behind", "through"])
def test_a_postgresql_that_hangs_and_one_that_is_killed_delay_nobody_and_lose_nothing(
    load, own_postgres, writes
):
    run = load(own_postgres.database(), writes)
    run.enqueue(JOBS // 3)
    own_postgres.signal_all(signal.SIGSTOP)
    run.enqueue(JOBS // 3)
    wait_until(run.ended, 60, "the jobs to end while the database hangs")
    assert run.backlog() > 0
    own_postgres.signal_all(signal.SIGCONT)
    wait_until(lambda: run.backlog() == 0, 60, "the database to have what it missed")
    own_postgres.kill()
    run.enqueue(JOBS // 3)
    wait_until(run.ended, 60, "the jobs to end without the database")
    own_postgres.restart()
    run.finish()
    assert run.longest < 5, "0.3 s is what anybody waits, on a machine that is not busy"
    # Three processes, two losses.
    assert run.node.logs().count("cannot be written") <= 6, "a line for a loss, not for each job"


def test_an_sqlite_file_that_is_locked_and_one_that_is_moved_away_lose_nothing(load, tmp_path):
    path = tmp_path / "jobs.db"
    run = load(f"sqlite:///{path}")
    run.enqueue(JOBS // 3)
    with sqlite3.connect(path, isolation_level=None) as other:
        other.execute("BEGIN EXCLUSIVE")
        run.enqueue(JOBS // 3)
        wait_until(run.ended, 60, "the jobs to end while the file is locked")
        assert run.backlog() > 0
        other.execute("ROLLBACK")
    wait_until(lambda: run.backlog() == 0, 60, "the file to have what it missed")
    run.pulse.database.close()
    away = tmp_path / "away"
    away.mkdir()
    for each in tmp_path.glob("jobs.db*"):
        each.rename(away / each.name)
    run.enqueue(JOBS // 3)
    wait_until(run.ended, 60, "the jobs to end without the file")
    path.unlink(missing_ok=True)  # whoever opened one in its place found no tables in it
    for each in [*tmp_path.glob("jobs.db*"), *away.iterdir()]:
        each.unlink() if each.parent == tmp_path else each.rename(tmp_path / each.name)
    run.finish()


def test_a_worker_that_is_killed_while_it_writes_loses_nothing(load, own_postgres):
    run = load(own_postgres.database())
    own_postgres.signal_all(signal.SIGSTOP)  # its writes hang, wherever they are
    run.enqueue(JOBS // 3)
    wait_until(run.ended, 60, "the jobs to end")
    run.node.kill_all()
    own_postgres.signal_all(signal.SIGCONT)
    run.node.start()
    run.finish()
    assert os.getpid() != run.node.pid


NEWER = (
    "ALTER TABLE denyut_jobs ADD COLUMN weight BIGINT DEFAULT 7 NOT NULL",
    "ALTER TABLE denyut_events ADD COLUMN later TEXT",
    "CREATE INDEX ix_denyut_jobs_weight ON denyut_jobs (prefix, weight)",
    f"UPDATE {TABLE} SET version_num = '1_9999'",
)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_newer_version_that_changes_the_tables_under_load_delays_nobody_and_loses_nothing(
    load, request, tmp_path, kind
):
    url = f"sqlite:///{tmp_path}/jobs.db" if kind == "sqlite" else request.getfixturevalue("postgres")
    run = load(url)
    run.enqueue(JOBS // 3)
    with exclusive(run.pulse.database.engine, wait=30.0) as connection:
        for statement in NEWER:
            connection.execute(text(statement))
        run.enqueue(JOBS // 3)
        wait_until(run.ended, 60, "the jobs to end while the tables are changed")
    run.enqueue(JOBS // 3)
    run.finish()
    with run.pulse.database.begin() as connection:
        assert connection.execute(text("SELECT DISTINCT weight FROM denyut_jobs")).scalars().all() == [7]
