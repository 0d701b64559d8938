from __future__ import annotations

import os
import sys

import pytest
from sqlalchemy import event, text
from sqlalchemy.exc import OperationalError

from denyut.database.engine import Database
from denyut.errors import ConfigurationError, SchemaMismatch


@pytest.fixture
def database(tmp_path):
    made = Database(f"sqlite:///{tmp_path}/jobs.db", timeout=0.2)
    made.create()
    yield made
    made.close()


def test_it_is_opened_at_first_use_and_again_after_it_was_closed(database):
    with database.begin() as connection:
        assert connection.execute(text("SELECT 1")).scalar() == 1
    database.close()
    with database.begin() as connection:
        assert connection.execute(text("PRAGMA journal_mode")).scalar() == "wal"


def test_a_driver_that_is_not_installed_is_an_error_that_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ConfigurationError, match=r"me:\*\*\*@db.*denyut\[postgres\]"):
        Database("postgresql+psycopg://me:s3cret@db/jobs", timeout=1.0)


def test_a_forked_process_has_an_engine_of_its_own(database):
    parents = database.engine
    pid = os.fork()
    if pid == 0:
        os._exit(0 if database.engine is not parents else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert database.engine is parents


def test_a_lock_is_waited_for_no_longer_than_it_may_be(database, tmp_path):
    other = Database(f"sqlite:///{tmp_path}/jobs.db", timeout=0.2)
    with other.begin() as holder:
        holder.execute(text("DELETE FROM denyut_jobs"))
        with pytest.raises(OperationalError, match="locked"), database.begin() as connection:
            connection.execute(text("DELETE FROM denyut_jobs"))
    other.close()


def test_a_statement_of_postgresql_takes_no_longer_than_it_may(postgres):
    database = Database(postgres, timeout=0.2)
    database.create()
    with pytest.raises(OperationalError, match="timeout"), database.begin() as connection:
        connection.execute(text("SELECT pg_sleep(30)"))
    database.close()


def test_tables_that_are_not_what_is_needed_are_an_error_until_they_are(tmp_path):
    database = Database(f"sqlite:///{tmp_path}/jobs.db", timeout=0.2)
    for look in (database.check, lambda: database.begin().__enter__()):
        with pytest.raises(SchemaMismatch, match="celery -A APP denyut migrate"):
            look()
    database.create()
    database.check()
    with database.begin() as connection:
        assert connection.execute(text("SELECT count(*) FROM denyut_jobs")).scalar() == 0
    database.close()


def test_the_tables_are_looked_at_once_in_a_process(database):
    asked = []
    event.listen(database.engine, "before_cursor_execute", lambda *args: asked.append(args[2]))
    for _ in range(3):
        with database.begin() as connection:
            connection.execute(text("SELECT 1"))
    assert len([statement for statement in asked if "denyut_revision" in statement]) <= 2
    assert asked.count("SELECT 1") == 3
