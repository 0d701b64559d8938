"""Letting go of rows whose time is over, in small batches, so that no batch holds writers up.

Of a job that is deleted a small row is kept, so that it can be told from one that never was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import delete, select

from denyut.database.save import save_gone
from denyut.database.tables import gone_table, tables

if TYPE_CHECKING:
    from sqlalchemy import Connection

__all__ = ["prune", "prune_gone"]


def prune(connection: Connection, prefix: str, before_us: int, *, now_us: int, limit: int = 500) -> int:
    """Delete jobs that Redis might have forgotten before ``before_us``, oldest first, and their events.

    Jobs that are not over, and dead letters that were not purged, have no such time, and stay.

    Args:
        connection: to the job store.
        prefix: of the deployment.
        before_us: time of Redis.
        now_us: the same, of this moment: since then they are gone.
        limit: most jobs of this batch.

    Returns:
        How many were looked at. If it is ``limit``, call it again, in another transaction.
    """
    jobs, events = tables()
    old = select(jobs.c.id).where(jobs.c.prefix == prefix, jobs.c.forget_at < before_us)
    ids = list(connection.execute(old.order_by(jobs.c.forget_at).limit(limit)).scalars())
    if not ids:
        return 0
    # Said again: a job of an id that was applied anew lives.
    over = delete(jobs).where(jobs.c.prefix == prefix, jobs.c.id.in_(ids), jobs.c.forget_at < before_us)
    rows = connection.execute(over.returning(jobs.c.id, jobs.c.state, jobs.c.finished_at)).mappings().all()
    gone = [row["id"] for row in rows]
    connection.execute(delete(events).where(events.c.prefix == prefix, events.c.job_id.in_(gone)))
    save_gone(connection, [{**row, "prefix": prefix, "gone_at": now_us} for row in rows])
    return len(ids)


def prune_gone(connection: Connection, prefix: str, before_us: int, *, limit: int = 500) -> int:
    """Forget also that there were jobs that were deleted before ``before_us``; returns how many."""
    gone = gone_table()
    old = select(gone.c.id).where(gone.c.prefix == prefix, gone.c.gone_at < before_us)
    ids = list(connection.execute(old.order_by(gone.c.gone_at).limit(limit)).scalars())
    if ids:
        over = delete(gone).where(gone.c.prefix == prefix, gone.c.id.in_(ids), gone.c.gone_at < before_us)
        connection.execute(over)
    return len(ids)
