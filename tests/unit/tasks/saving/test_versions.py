"""Tables of another version of Denyut than that which works with them."""

from __future__ import annotations

import logging

import pytest
from sqlalchemy import text

from denyut.database.revision import TABLE
from denyut.errors import SchemaMismatch
from denyut.states import State
from denyut.tasks.saving.applier import Applier
from denyut.tasks.saving.backlog import read_backlog
from denyut.tasks.saving.put_back import compare

FUTURE = (
    "ALTER TABLE denyut_jobs ADD COLUMN later TEXT",
    "ALTER TABLE denyut_jobs ADD COLUMN weight BIGINT DEFAULT 7 NOT NULL",
    "ALTER TABLE denyut_events ADD COLUMN later TEXT",
    "CREATE TABLE denyut_later (id TEXT PRIMARY KEY)",
)


def change(pulse, *statements: str) -> None:
    with pulse.database.engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))
    pulse.database.close()  # the next use looks again


@pytest.fixture(params=["sqlite", "postgresql"])
def newer(request, make_shelves):
    """A store that a newer version has migrated."""
    url = request.getfixturevalue("postgres") if request.param == "postgresql" else None
    shelves = make_shelves(url=url)
    change(shelves.pulse, *FUTURE, f"UPDATE {TABLE} SET version_num = '1_9999'")
    return shelves


def test_beside_a_newer_version_jobs_are_written_read_listed_and_put_back(newer):
    ids = [newer.work.delay(bad).id for bad in (False, True)]
    waiting = newer.work.apply_async(countdown=60).id
    newer.bench.drain()
    applier = Applier(newer.pulse)
    while applier.step():
        pass
    change(newer.pulse, "UPDATE denyut_jobs SET later = 'theirs'")
    newer.client.flushall()
    assert compare(newer.pulse, newer.client) == 3
    assert {job.id for job in newer.pulse.jobs.list().jobs} == {*ids, waiting}
    assert newer.pulse.jobs.cancel(waiting).state == State.CANCELLED
    applier.step()
    with newer.pulse.database.begin() as connection:
        found = connection.execute(
            text("SELECT state, later, weight FROM denyut_jobs WHERE id = :id"), {"id": waiting}
        )
        assert found.one() == ("CANCELLED", "theirs", 7)


def test_with_older_tables_jobs_go_on_everybody_is_told_the_command_and_then_all_is_written(shelves, caplog):
    change(shelves.pulse, f"UPDATE {TABLE} SET version_num = '1_0001'")
    applier = Applier(shelves.pulse)
    with caplog.at_level(logging.ERROR):
        job = shelves.work.delay()
        shelves.bench.drain()
        assert applier.step() == 0
    assert "revision 1_0001" in caplog.text
    assert "celery -A APP denyut migrate" in caplog.text
    assert "denyut migrate" in read_backlog(shelves.pulse, shelves.client).error
    assert not shelves.pulse.jobs.list().complete
    change(shelves.pulse, f"UPDATE {TABLE} SET version_num = '1_9999'")
    shelves.pulse.saving.breaker.worked()  # its pause is over
    assert applier.step() == 1
    assert shelves.row(job.id)["state"] == "COMPLETED"


@pytest.mark.parametrize(
    ("revision", "says"), [("1_0001", "celery -A APP denyut migrate"), ("2_0001", "cannot read")]
)
def test_a_worker_does_not_start_with_tables_that_it_cannot_work_with(shelves, revision, says):
    change(shelves.pulse, f"UPDATE {TABLE} SET version_num = '{revision}'")
    with pytest.raises(SchemaMismatch, match=says):
        shelves.pulse.saving.prepare()


def test_a_worker_starts_while_the_store_cannot_be_reached(make_bench, caplog):
    pulse = make_bench(denyut_database_url="postgresql+psycopg://me:s3cret@127.0.0.1:1/jobs").pulse
    pulse.saving.prepare()
    assert "the job store cannot be reached yet: OperationalError" in caplog.text
    assert "s3cret" not in caplog.text


def test_a_worker_leaves_no_connection_to_the_processes_that_it_forks(shelves):
    shelves.pulse.saving.prepare()
    assert shelves.pulse.database._engine is None
