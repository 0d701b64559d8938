"""Putting a job into an outbox: the one statement, for SQLAlchemy and for whoever has a cursor of his own."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import BigInteger, bindparam, insert
from sqlalchemy.dialects import postgresql, sqlite

from denyut.database.outbox import now_us, outbox

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Insert

__all__ = ["put_statement", "put_text"]

#: What the caller gives: ``due_in`` is microseconds from now, None for at once.
NAMES = ("prefix", "id", "task", "key", "message", "due_in")


@cache
def put_statement() -> Insert:
    """Return the statement. Its parameters: prefix, id, task, key, message, due_in (us; None: at once)."""
    table = outbox()
    # A sum with NULL is NULL.
    due = now_us() + bindparam("due_in", type_=BigInteger)
    given = {name: bindparam(name, type_=table.c[name].type) for name in NAMES if name != "due_in"}
    return insert(table).inline().values(**given, created=now_us(), due=due, attempts=0, try_at=0)


@cache
def _compiled(vendor: str) -> tuple[str, tuple[str, ...], dict[str, Any]]:
    kinds: dict[str, Any] = {"postgresql": postgresql, "sqlite": sqlite}
    found = put_statement().compile(dialect=kinds[vendor].dialect(paramstyle="format"))
    return str(found), tuple(found.positiontup or ()), dict(found.params)


def put_text(vendor: str, values: Mapping[str, Any]) -> tuple[str, list[Any]]:
    """Return the statement as text, with ``%s`` for each parameter, and the parameters in their order.

    Args:
        vendor: ``postgresql`` or ``sqlite``.
        values: of the parameters, as for :func:`put_statement`.

    Raises:
        KeyError: for another vendor.
    """
    text, order, fixed = _compiled(vendor)
    return text, [values[name] if name in values else fixed[name] for name in order]
