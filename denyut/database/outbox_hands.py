"""What an operator does with the rows of an outbox: see them, have them tried again, let go of them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, select, update

from denyut.database.outbox import now_us, outbox

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import ColumnElement, Connection

__all__ = ["Listed", "list_rows", "purge_rows", "retry_rows"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A row, for people. ``aside``: it is not tried any more. Times in seconds."""

    id: str
    task: str
    key: str | None
    age: float
    due_in: float | None
    attempts: int
    aside: bool
    error: str | None

    def as_dict(self) -> dict[str, Any]:
        """Return everything as data."""
        return asdict(self)


def list_rows(connection: Connection, prefix: str, *, aside: bool = False, limit: int = 50) -> list[Listed]:
    """Return rows in their order; with ``aside`` only those that were set aside."""
    c = outbox().c
    query = select(c.id, c.task, c.key, now_us() - c.created, c.due - now_us(), c.attempts, c.try_at, c.error)
    query = query.where(c.prefix == prefix, *([c.try_at.is_(None)] if aside else []))
    return [
        Listed(
            id=job_id,
            task=task,
            key=key,
            age=max(age / 1e6, 0.0),
            due_in=None if due is None else due / 1e6,
            attempts=attempts,
            aside=try_at is None,
            error=error,
        )
        for job_id, task, key, age, due, attempts, try_at, error in connection.execute(
            query.order_by(c.seq).limit(limit)
        )
    ]


def retry_rows(connection: Connection, prefix: str, ids: Sequence[str] | None) -> int:
    """Let rows be tried at once, with all their tries; None: all that were set aside. Returns how many."""
    change = update(outbox()).where(*_which(prefix, ids, of_all=outbox().c.try_at.is_(None)))
    return connection.execute(change.values(try_at=0, attempts=0)).rowcount


def purge_rows(connection: Connection, prefix: str, ids: Sequence[str] | None) -> int:
    """Delete rows, whose jobs then never are; None: all that were set aside. Returns how many."""
    which = _which(prefix, ids, of_all=outbox().c.try_at.is_(None))
    return connection.execute(delete(outbox()).where(*which)).rowcount


def _which(
    prefix: str, ids: Sequence[str] | None, *, of_all: ColumnElement[bool]
) -> list[ColumnElement[bool]]:
    c = outbox().c
    return [c.prefix == prefix, of_all if ids is None else c.id.in_(ids)]
