"""What is in an outbox, for those who watch it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import func, select

from denyut.database.outbox import now_us, outbox

if TYPE_CHECKING:
    from sqlalchemy import Connection

__all__ = ["MOST", "Backlog", "read_backlog"]

#: Rows are counted up to here: it must not cost more the worse things are.
MOST = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """``waiting``: rows to be relayed, the first of them for ``oldest_s`` seconds. ``aside``: set aside."""

    waiting: int
    oldest_s: float
    aside: int


def read_backlog(connection: Connection, prefix: str) -> Backlog:
    """Count what is in an outbox, each up to ``MOST``."""
    c = outbox().c
    here = select(c.created).where(c.prefix == prefix)
    waiting = here.where(c.try_at.is_not(None)).order_by(c.try_at, c.seq).limit(MOST).subquery()
    aside = here.where(c.try_at.is_(None)).limit(MOST).subquery()
    count, oldest = connection.execute(
        select(func.count(), now_us() - func.min(waiting.c.created)).select_from(waiting)
    ).one()
    put = connection.execute(select(func.count()).select_from(aside)).scalar_one()
    return Backlog(waiting=count, oldest_s=max((oldest or 0) / 1e6, 0.0), aside=put)
