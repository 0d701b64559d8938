"""The migration makes the table that ``denyut outbox migrate`` makes elsewhere, and takes it away again."""

from __future__ import annotations

from django.core.management import call_command
from sqlalchemy import create_engine, inspect

from denyut.database.outbox import OUTBOX, find_missing, metadata


def described(engine):
    found = inspect(engine)
    columns = {c["name"]: (str(c["type"]), c["nullable"]) for c in found.get_columns(OUTBOX)}
    indexes = {i["name"]: i["column_names"] for i in found.get_indexes(OUTBOX)}
    engine.dispose()
    return columns, indexes, found.get_pk_constraint(OUTBOX)["constrained_columns"]


def test_the_table_is_as_denyut_migrate_would_make_it(migrated, url):
    made = create_engine(url)
    assert find_missing(made) == []
    by_django = described(made)
    call_command("migrate", "denyut", "zero", database="shop", verbosity=0)
    again = create_engine(url)
    assert find_missing(again) == [OUTBOX]
    metadata().create_all(again)
    assert _same(by_django) == _same(described(again))


def _same(found):
    columns, *rest = found
    names = {"INTEGER": "whole", "BIGINT": "whole"}  # SQLite's numbers are all of one size
    return [{name: (names.get(kind, kind), null) for name, (kind, null) in columns.items()}, *rest]
