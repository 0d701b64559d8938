"""Which revision a database has, and what follows from it."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from denyut.database.migrate import scripts
from denyut.database.revision import HEAD, TABLE, Schema, Standing, check_schema, read_schema
from denyut.errors import SchemaMismatch


def test_the_head_is_the_newest_revision_and_each_follows_the_one_before():
    revisions = list(scripts().walk_revisions())
    assert revisions[0].revision == HEAD
    names = [each.revision for each in reversed(revisions)]
    assert names == [f"1_{n:04}" for n in range(1, len(names) + 1)]


def be(database, revision: str) -> Schema:
    with database.engine.begin() as connection:
        connection.execute(text(f"UPDATE {TABLE} SET version_num = :it"), {"it": revision})
        return read_schema(connection)


@pytest.mark.parametrize(
    ("revision", "standing", "says"),
    [
        (HEAD, Standing.EQUAL, "as this version"),
        ("1_0001", Standing.OLDER, f"needs {HEAD}.*denyut migrate"),
        ("0_9999", Standing.OLDER, "denyut migrate"),
        ("1_9999", Standing.NEWER, "works with them"),
        ("2_0001", Standing.STRANGE, "cannot read; use the version that made them"),
        ("a1b2c3", Standing.STRANGE, "cannot read"),
    ],
)
def test_a_revision_is_older_newer_or_of_another_generation(empty, revision, standing, says):
    empty.create()
    schema = be(empty, revision)
    assert (schema.revision, schema.standing) == (revision, standing)
    assert schema.usable == (standing in (Standing.EQUAL, Standing.NEWER))
    with empty.engine.connect() as connection:
        if schema.usable:
            check_schema(connection)
        else:
            with pytest.raises(SchemaMismatch, match=says):
                check_schema(connection)
    assert revision in str(schema)


def test_a_database_without_tables_and_one_without_a_revision_are_told_apart(empty):
    with empty.engine.connect() as connection:
        assert read_schema(connection) == Schema(None, Standing.NONE)
        with pytest.raises(SchemaMismatch, match="has no tables; make them: celery -A APP denyut migrate"):
            check_schema(connection)


def test_tables_from_before_there_were_revisions_are_older(old):
    with (
        old.engine.connect() as connection,
        pytest.raises(SchemaMismatch, match="before there were revisions"),
    ):
        check_schema(connection)


def test_the_users_own_alembic_is_not_read(empty):
    with empty.engine.begin() as connection:
        connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)"))
        connection.execute(text("INSERT INTO alembic_version VALUES ('theirs')"))
    empty.create()
    with empty.engine.connect() as connection:
        assert read_schema(connection).standing == Standing.EQUAL
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalars().all() == [
            "theirs"
        ]
