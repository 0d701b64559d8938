"""Letting go of rows whose time is over, in small batches, so that no batch holds writers up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import delete, select

from denyut.database.tables import tables

if TYPE_CHECKING:
    from sqlalchemy import Connection

__all__ = ["prune"]


def prune(connection: Connection, prefix: str, before_us: int, *, limit: int = 500) -> int:
    """Delete jobs that Redis might have forgotten before ``before_us``, oldest first, and their events.

    Jobs that are not over, and dead letters that were not purged, have no such time, and stay.

    Args:
        connection: to the job store.
        prefix: of the deployment.
        before_us: time of Redis.
        limit: most jobs of this batch.

    Returns:
        How many were deleted. There may be more: call it again, in another transaction.
    """
    jobs, events = tables()
    old = select(jobs.c.id).where(jobs.c.prefix == prefix, jobs.c.forget_at < before_us)
    ids = list(connection.execute(old.order_by(jobs.c.forget_at).limit(limit)).scalars())
    if not ids:
        return 0
    connection.execute(delete(events).where(events.c.prefix == prefix, events.c.job_id.in_(ids)))
    # Said again: a job of an id that was applied anew lives.
    gone = delete(jobs).where(jobs.c.prefix == prefix, jobs.c.id.in_(ids), jobs.c.forget_at < before_us)
    connection.execute(gone)
    return len(ids)
