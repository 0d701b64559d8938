"""One transaction at a time, of all processes: for changes of the tables themselves."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection, Engine

__all__ = ["exclusive"]

#: Of PostgreSQL's advisory locks: the first eight bytes of SHA-256 of ``denyut migrate``, as they are signed.
LOCK = 3130162178035677956


@contextmanager
def exclusive(engine: Engine, *, wait: float) -> Iterator[Connection]:
    """Open a connection and a transaction that no other of this kind runs beside.

    It commits at the end of the ``with`` block; an error takes everything back, changes of tables, too.
    No statement in it is cut short.

    Args:
        engine: of SQLite or PostgreSQL.
        wait: seconds to wait for another, and for each table that somebody uses.

    Raises:
        sqlalchemy.exc.OperationalError: the other takes longer.
    """
    inside = _sqlite if engine.dialect.name == "sqlite" else _postgresql
    with engine.connect() as connection:
        yield from inside(connection, round(wait * 1000))


def _sqlite(connection: Connection, wait_ms: int) -> Iterator[Connection]:
    # Else the driver would begin only at the first write to a row, after changes of tables.
    connection = connection.execution_options(isolation_level="AUTOCOMMIT")
    before = connection.exec_driver_sql("PRAGMA busy_timeout").scalar()
    connection.exec_driver_sql(f"PRAGMA busy_timeout = {wait_ms}")
    try:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        try:
            yield connection
        except BaseException:
            connection.exec_driver_sql("ROLLBACK")
            raise
        connection.exec_driver_sql("COMMIT")
    finally:
        connection.exec_driver_sql(f"PRAGMA busy_timeout = {before}")


def _postgresql(connection: Connection, wait_ms: int) -> Iterator[Connection]:
    with connection.begin():
        connection.exec_driver_sql("SET LOCAL statement_timeout = 0")
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = {wait_ms}")
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({LOCK})")
        yield connection
