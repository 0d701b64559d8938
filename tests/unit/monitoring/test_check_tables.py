"""The doctor's look at the tables of the job store."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from denyut.database.revision import HEAD, TABLE
from denyut.monitoring.check import Level
from denyut.monitoring.check_tables import check_tables


@pytest.fixture
def stored(make_desk, tmp_path):
    return make_desk(denyut_database_url=f"sqlite:///{tmp_path}/jobs.db")


def test_without_a_store_there_is_nothing_to_say(desk):
    assert check_tables(desk.pulse, desk.client).level == Level.OK


def test_a_store_without_tables_fails_with_the_command(stored):
    found = check_tables(stored.pulse, stored.client)
    assert found.level == Level.FAIL
    assert "celery -A APP denyut migrate" in found.message


@pytest.mark.parametrize(
    ("revision", "level", "says"),
    [
        (HEAD, Level.OK, "as this version"),
        ("1_9999", Level.OK, "works with them"),
        ("1_0001", Level.FAIL, "denyut migrate"),
        ("2_0001", Level.FAIL, "cannot read"),
    ],
)
def test_the_revision_is_told_and_fails_where_it_cannot_be_worked_with(stored, revision, level, says):
    stored.pulse.database.create()
    with stored.pulse.database.engine.begin() as connection:
        connection.execute(text(f"UPDATE {TABLE} SET version_num = '{revision}'"))
    found = check_tables(stored.pulse, stored.client)
    assert (found.level, says in found.message, revision in found.message) == (level, True, True)


def test_a_database_that_cannot_be_asked_fails_with_why_and_without_its_password(make_desk):
    desk = make_desk(
        denyut_database_url="postgresql+psycopg://me:s3cret@127.0.0.1:1/jobs", denyut_database_timeout=5.0
    )
    found = check_tables(desk.pulse, desk.client)
    assert found.level == Level.FAIL
    assert "me:***@127.0.0.1:1/jobs cannot be asked: OperationalError" in found.message
    assert "s3cret" not in found.message
