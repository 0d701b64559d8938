"""The table of an outbox, ``denyut_outbox``: one row for each job that a transaction enqueues, until it is.

It stands in the database of the application, because the row is written in the application's own
transaction. Therefore it is no part of the job store's description (:mod:`denyut.database.tables`): each
database has one owner of its schema. ``denyut outbox migrate`` makes it where ``denyut_outbox_url`` has an
address, Django's migrations where that is ``django://...``. For migrations of your own:
``target_metadata = [Base.metadata, denyut.database.outbox.metadata()]``.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import BigInteger, Column, Index, Integer, MetaData, String, Table, Text, inspect
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.expression import FunctionElement

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

__all__ = ["DIALECTS", "OUTBOX", "find_missing", "is_missing", "metadata", "now_us", "outbox"]

OUTBOX = "denyut_outbox"

#: What the databases are that can have an outbox.
DIALECTS = ("postgresql", "sqlite")

#: How databases say that a table, or a column, is not there.
_MISSING = ("no such table", "has no column", "does not exist")


@cache
def metadata() -> MetaData:
    """Return the description of the table."""
    found = MetaData()
    whole = BigInteger().with_variant(Integer, "sqlite")  # only such a key is given by SQLite itself
    table = Table(
        OUTBOX,
        found,
        Column("seq", whole, primary_key=True, autoincrement=True),  # in the order of the enqueues
        Column("prefix", String(64), nullable=False),  # denyut_prefix: deployments may share a database
        Column("id", String(255), nullable=False),  # of the job
        Column("task", Text, nullable=False),
        Column("key", Text),  # idempotency key
        Column("message", Text, nullable=False),  # JSON text in ASCII (denyut/tasks/outbox/row.py)
        Column("created", BigInteger, nullable=False),  # times are microseconds of the database's clock
        Column("due", BigInteger),  # of a job that is for later
        Column("attempts", Integer, nullable=False),  # that failed
        Column("try_at", BigInteger),  # 0: at once; a time: not before then; NULL: set aside
        Column("error", Text),  # of the last attempt
        sqlite_autoincrement=True,  # a number is never given again
    )
    # What the relay asks: those first that have not failed, in their order.
    Index("ix_denyut_outbox_try", table.c.prefix, table.c.try_at, table.c.seq)
    return found


def outbox() -> Table:
    """Return the table."""
    return metadata().tables[OUTBOX]


def find_missing(engine: Engine | Connection) -> list[str]:
    """Return the table, or those of its columns (``table.column``), that are not there; sorted."""
    found = inspect(engine)
    if not found.has_table(OUTBOX):
        return [OUTBOX]
    there = {column["name"] for column in found.get_columns(OUTBOX)}
    return sorted(f"{OUTBOX}.{column.name}" for column in outbox().columns if column.name not in there)


def is_missing(exc: BaseException) -> bool:
    """Whether a database said by ``exc`` that the table, or a column of it, is not there."""
    text = str(exc.__cause__ or getattr(exc, "orig", None) or exc)
    return OUTBOX in text and any(words in text for words in _MISSING)


class now_us(FunctionElement[int]):  # noqa: N801 - it is a function of SQL
    """The database's clock in microseconds; not the begin of the transaction. SQLite's has milliseconds."""

    type = BigInteger()
    inherit_cache = True
    name = "denyut_now_us"


@compiles(now_us, "postgresql")
def _postgresql(_element: Any, _compiler: Any, **_: Any) -> str:
    return "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)"


@compiles(now_us, "sqlite")
def _sqlite(_element: Any, _compiler: Any, **_: Any) -> str:
    return "CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)"
