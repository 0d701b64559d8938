"""Taking jobs out of an outbox: in the order of their enqueue, many at once, and each by one relay.

On PostgreSQL the rows that one relay has in hand are skipped by all others (``FOR UPDATE SKIP LOCKED``), for
as long as its transaction lasts; SQLite has no such locks, and leaves it to the relays' lease.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import delete, select, text, update

from denyut.database.outbox import now_us, outbox

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

__all__ = ["Row", "drop", "put_aside", "put_off", "take"]

#: How long a transaction of a relay may stand still before PostgreSQL ends it (ms): one that is paused, or
#: whose host is gone, must not keep its rows for ever.
_STANDING = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One job in an outbox. ``due_in`` is seconds from now, None for at once; ``age`` in seconds."""

    seq: int
    id: str
    task: str
    message: str
    attempts: int
    due_in: float | None
    age: float


def take(connection: Connection, prefix: str, limit: int) -> list[Row]:
    """Return rows that are to be relayed now, those first that have not failed yet, in their order.

    Args:
        connection: in a transaction, which is to last until they are dropped.
        prefix: of the deployment.
        limit: most rows.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"SET LOCAL idle_in_transaction_session_timeout = {_STANDING}"))
    c = outbox().c
    now = select(now_us()).scalar_subquery()  # asked once: a clock that goes on is no use to an index
    query = select(c.seq, c.id, c.task, c.message, c.attempts, c.due - now_us(), now_us() - c.created)
    query = query.where(c.prefix == prefix, c.try_at <= now).order_by(c.try_at, c.seq).limit(limit)
    found = connection.execute(query.with_for_update(skip_locked=True))
    return [
        Row(
            seq=seq,
            id=job_id,
            task=task,
            message=message,
            attempts=attempts,
            due_in=None if due is None else max(due / 1e6, 0.0),
            age=max(age / 1e6, 0.0),
        )
        for seq, job_id, task, message, attempts, due, age in found
    ]


def drop(connection: Connection, seqs: Sequence[int]) -> None:
    """Delete rows that are relayed."""
    if seqs:
        connection.execute(delete(outbox()).where(outbox().c.seq.in_(seqs)))


def put_off(connection: Connection, seq: int, error: str, pause: float) -> None:
    """Note that a row could not be relayed, and leave it alone for ``pause`` seconds."""
    _failed(connection, seq, error, now_us() + round(pause * 1_000_000))


def put_aside(connection: Connection, seq: int, error: str) -> None:
    """Note that a row could not be relayed, and leave it alone until somebody asks for it."""
    _failed(connection, seq, error, None)


def _failed(connection: Connection, seq: int, error: str, try_at: object) -> None:
    table = outbox()
    change = update(table).where(table.c.seq == seq)
    connection.execute(change.values(attempts=table.c.attempts + 1, error=error, try_at=try_at))
