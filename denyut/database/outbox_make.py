"""Making the table of an outbox, or bringing one that an older version has made up to this one.

A version adds no columns but such as may be NULL, so that an older one works with a newer table, and a row
that it writes has NULL there. What a newer version has added is left alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import text
from sqlalchemy.schema import CreateColumn

from denyut.database.exclusive import exclusive
from denyut.database.outbox import OUTBOX, find_missing, metadata, outbox

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

__all__ = ["make_outbox"]

#: How long to wait for another that does the same, and for the table (s).
_WAIT = 30.0


def make_outbox(engine: Engine) -> None:
    """Make the table, or add the columns and the index that it lacks. May be run again, by many at once.

    Raises:
        sqlalchemy.exc.SQLAlchemyError: it could not be done, and nothing was.
    """
    with exclusive(engine, wait=_WAIT) as connection:
        metadata().create_all(connection, checkfirst=True)
        missing = {name.partition(".")[2] for name in find_missing(connection)}
        for column in outbox().columns:
            if column.name in missing and column.nullable:
                _add(connection, str(CreateColumn(column).compile(dialect=connection.dialect)))
        for index in outbox().indexes:
            index.create(connection, checkfirst=True)


def _add(connection: Connection, column: str) -> None:
    connection.execute(text(f"ALTER TABLE {OUTBOX} ADD COLUMN {column}"))
