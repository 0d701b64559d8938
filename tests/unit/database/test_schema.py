from __future__ import annotations

import pytest
from sqlalchemy import text

from denyut.database.engine import Database
from denyut.database.schema import find_missing


@pytest.fixture
def database(tmp_path):
    made = Database(f"sqlite:///{tmp_path}/jobs.db", timeout=5.0)
    yield made
    made.close()


def test_of_an_empty_database_all_tables_are_missing(database):
    assert find_missing(database.engine) == ["denyut_audit", "denyut_events", "denyut_gone", "denyut_jobs"]


def test_nothing_is_missing_once_the_tables_are_made(database):
    database.create()
    assert find_missing(database.engine) == []


def test_a_column_that_an_older_table_has_not_is_named(database):
    database.create()
    with database.begin() as connection:
        connection.execute(text("ALTER TABLE denyut_jobs DROP COLUMN due"))
    assert find_missing(database.engine) == ["denyut_jobs.due"]


def test_a_column_that_a_newer_version_added_is_no_fault(database):
    database.create()
    with database.begin() as connection:
        connection.execute(text("ALTER TABLE denyut_jobs ADD COLUMN later TEXT"))
    assert find_missing(database.engine) == []
