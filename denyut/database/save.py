"""Writing rows, so that no order of writes brings an old state back: only a higher version replaces a row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from denyut.database.tables import gone_table, tables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection, Table

__all__ = ["insert_into", "save_events", "save_gone", "save_jobs"]


def save_jobs(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows of ``denyut_jobs``, or replace those with a lower version. Others are left as they are.

    In one order, whoever writes: two writers of the same jobs wait for each other, and do not deadlock.
    """
    if not rows:
        return
    jobs, _ = tables()
    insert = insert_into(connection, jobs)
    others = {c.name: insert.excluded[c.name] for c in jobs.c if not c.primary_key}
    statement = insert.on_conflict_do_update(
        index_elements=["prefix", "id"], set_=others, where=jobs.c.version < insert.excluded.version
    )
    connection.execute(statement, sorted(rows, key=lambda row: str(row["id"])))


def save_events(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows of ``denyut_events``; those that are there already are left as they are."""
    if not rows:
        return
    _, events = tables()
    ordered = sorted(rows, key=lambda row: (str(row["job_id"]), row["ms"], row["seq"]))
    connection.execute(insert_into(connection, events).on_conflict_do_nothing(), ordered)


def save_gone(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows of ``denyut_gone``; a job of an id that was gone before is gone since now."""
    if not rows:
        return
    gone = gone_table()
    insert = insert_into(connection, gone)
    others = {c.name: insert.excluded[c.name] for c in gone.c if not c.primary_key}
    statement = insert.on_conflict_do_update(index_elements=["prefix", "id"], set_=others)
    connection.execute(statement, sorted(rows, key=lambda row: str(row["id"])))


def insert_into(connection: Connection, table: Table) -> Any:
    """Return an INSERT that knows what to do with rows that are there (``on_conflict_...``)."""
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects.postgresql import insert as postgresql

        return postgresql(table)
    from sqlalchemy.dialects.sqlite import insert as sqlite

    return sqlite(table)
