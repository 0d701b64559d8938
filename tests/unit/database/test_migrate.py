"""From whatever tables there are to those of this version."""

from __future__ import annotations

from threading import Thread

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import create_engine, inspect, select, text

from denyut.database import migrate as module
from denyut.database.engine import Database
from denyut.database.migrate import migrate
from denyut.database.places import read_places
from denyut.database.revision import HEAD, TABLE, Standing
from denyut.database.save import save_jobs
from denyut.database.tables import metadata, tables
from denyut.errors import SchemaMismatch
from denyut.wanted import Wanted


def differences(database) -> list:
    with database.engine.connect() as connection:
        opts = {"version_table": TABLE, "compare_type": True, "compare_server_default": True}
        return compare_metadata(MigrationContext.configure(connection, opts=opts), metadata())


def indexes(engine) -> set[str]:
    """Every index as the database would make it again: Alembic does not compare which rows they have."""
    ask = "SELECT sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
    if engine.dialect.name == "postgresql":
        ask = f"SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' AND tablename <> '{TABLE}'"
    with engine.connect() as connection:
        found = connection.execute(text(ask)).scalars()
        return {each.replace("denyut_jobs.", "").replace('"', "") for each in found}


def collations(engine) -> set[tuple[str, str, str]]:
    ask = "SELECT table_name, column_name, collation_name FROM information_schema.columns "
    with engine.connect() as connection:
        found = connection.execute(
            text(ask + "WHERE table_name LIKE 'denyut_%' AND collation_name IS NOT NULL")
        )
        return {tuple(each) for each in found}


def test_an_empty_database_gets_the_tables_that_the_code_describes(empty):
    before, now = migrate(empty.engine)
    assert (before.standing, now.standing, now.revision) == (Standing.NONE, Standing.EQUAL, HEAD)
    assert differences(empty) == []


def test_tables_from_before_there_were_revisions_are_adopted_with_their_rows(old):
    before, now = migrate(old.engine)
    assert (before.standing, now.standing) == (Standing.OLDER, Standing.EQUAL)
    assert differences(old) == []
    with old.begin() as connection:
        assert read_places(connection, "d", Wanted()) == [
            (99, "due"),
            (8, "runs"),
            (5, "ended"),
            (3, "waits"),
        ]


def test_indexes_and_orders_of_texts_are_those_that_the_code_describes_whatever_the_way(
    old, postgres_server, tmp_path
):
    migrate(old.engine)
    lite = old.engine.dialect.name == "sqlite"
    url = f"sqlite:///{tmp_path}/fresh.db" if lite else postgres_server.database()
    fresh = create_engine(url)
    metadata().create_all(fresh)
    try:
        assert indexes(old.engine) == indexes(fresh)
        assert lite or collations(old.engine) >= collations(fresh)
    finally:
        fresh.dispose()
        if not lite:
            postgres_server.drop(url)


def test_tables_that_were_made_of_the_description_alone_are_adopted(empty):
    metadata().create_all(empty.engine)
    before, now = migrate(empty.engine)
    assert (before.standing, now.standing) == (Standing.OLDER, Standing.EQUAL)
    assert differences(empty) == []


def test_a_second_time_there_is_nothing_to_do(empty):
    migrate(empty.engine)
    assert {each.standing for each in migrate(empty.engine)} == {Standing.EQUAL}


def test_of_many_at_once_each_finds_the_tables_made(empty):
    others = [Database(empty.url.render_as_string(hide_password=False), timeout=0.3) for _ in range(3)]
    found, wrong = [], []

    def one(database) -> None:
        try:
            found.append(migrate(database.engine)[1].standing)
        except BaseException as exc:  # noqa: BLE001 - told below
            wrong.append(exc)

    threads = [Thread(target=one, args=(database,)) for database in others]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for database in others:
        database.close()
    assert (wrong, found) == ([], [Standing.EQUAL] * 3)


def test_one_that_fails_midway_leaves_what_was_there(old, monkeypatch):
    broken = module.scripts()
    real = broken.get_revision("1_0003").module
    monkeypatch.setattr(real, "upgrade", lambda: 1 / 0)
    monkeypatch.setattr(module, "scripts", lambda: broken)
    with pytest.raises(ZeroDivisionError):
        migrate(old.engine)
    there = inspect(old.engine)
    assert set(there.get_table_names()) == {"denyut_jobs", "denyut_events"}
    assert "at" not in {column["name"] for column in there.get_columns("denyut_jobs")}


def future(database, revision: str) -> None:
    """Tables as a later version of Denyut might leave them."""
    database.create()
    with database.engine.begin() as connection:
        for statement in (
            "ALTER TABLE denyut_jobs ADD COLUMN later TEXT",
            "ALTER TABLE denyut_jobs ADD COLUMN weight BIGINT DEFAULT 7 NOT NULL",
            "CREATE INDEX ix_denyut_jobs_later ON denyut_jobs (prefix, later)",
            "CREATE TABLE denyut_later (id TEXT PRIMARY KEY)",
            f"UPDATE {TABLE} SET version_num = '{revision}'",
        ):
            connection.execute(text(statement))


def test_newer_tables_are_left_as_they_are_and_work(empty):
    future(empty, "1_9999")
    before, now = migrate(empty.engine)
    assert (before, now.revision) == (now, "1_9999")
    jobs, _ = tables()
    row = dict.fromkeys(column.name for column in jobs.c)
    row |= {"prefix": "d", "id": "j", "version": 1, "state": "FAILED", "settled": True, "task": "t"}
    for version in (1, 2):
        with empty.begin() as connection:
            save_jobs(connection, [{**row, "queue": "q", "at": 5, "record": "{}", "version": version}])
    with empty.begin() as connection:
        assert read_places(connection, "d", Wanted()) == [(5, "j")]
        assert connection.execute(select(jobs.c.version)).scalar() == 2
        assert connection.execute(text("SELECT later, weight FROM denyut_jobs")).one() == (None, 7)


def test_tables_of_another_generation_are_not_touched(empty):
    future(empty, "2_0001")
    with pytest.raises(SchemaMismatch, match=r"2_0001.*cannot read"):
        migrate(empty.engine)
