from __future__ import annotations

from sqlalchemy import create_engine, inspect

from denyut.database.tables import AUDIT, EVENTS, GONE, JOBS, audit_table, gone_table, metadata, tables


def test_all_tables_are_made_with_their_indexes():
    engine = create_engine("sqlite://")
    metadata().create_all(engine)
    found = inspect(engine)
    assert set(found.get_table_names()) == {JOBS, EVENTS, GONE, AUDIT}
    assert found.get_pk_constraint(JOBS)["constrained_columns"] == ["prefix", "id"]
    engine.dispose()


def test_the_tables_are_named_in_the_order_of_the_promise():
    assert [table.name for table in tables()] == [JOBS, EVENTS]
    assert (gone_table().name, audit_table().name) == (GONE, AUDIT)
