"""What Redis should have: the rows of jobs that are not over, or whose retention is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import or_, select

from denyut.database.tables import gone_table, tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

__all__ = ["read_events", "read_gone", "read_owed", "read_records"]


def read_owed(
    connection: Connection, prefix: str, now_us: int, *, after: str = "", limit: int = 1000
) -> list[tuple[str, int]]:
    """Return id and version of jobs that Redis should have, in the order of their ids.

    Args:
        connection: to the job store.
        prefix: of the deployment.
        now_us: Redis' time.
        after: the last id of the page before.
        limit: most jobs.
    """
    jobs, _ = tables()
    kept = or_(jobs.c.forget_at.is_(None), jobs.c.forget_at > now_us)
    query = select(jobs.c.id, jobs.c.version).where(jobs.c.prefix == prefix, jobs.c.id > after, kept)
    return [(row.id, row.version) for row in connection.execute(query.order_by(jobs.c.id).limit(limit))]


def read_records(connection: Connection, prefix: str, ids: Sequence[str]) -> dict[str, tuple[int, str]]:
    """Return version and record (JSON text) of those jobs that the store has, by id."""
    jobs, _ = tables()
    query = select(jobs.c.id, jobs.c.version, jobs.c.record)
    found = connection.execute(query.where(jobs.c.prefix == prefix, jobs.c.id.in_(ids)))
    return {row.id: (row.version, row.record) for row in found}


def read_gone(
    connection: Connection, prefix: str, ids: Sequence[str]
) -> dict[str, tuple[str, int | None, int]]:
    """Return of jobs that were deleted: the last state, when that came about, when they were deleted (us)."""
    gone = gone_table()
    query = select(gone).where(gone.c.prefix == prefix, gone.c.id.in_(ids))
    return {row.id: (row.state, row.finished_at, row.gone_at) for row in connection.execute(query)}


def read_events(connection: Connection, prefix: str, job_id: str) -> list[tuple[int, int, str]]:
    """Return the id (both parts) and the fields (JSON text) of each entry of a job's story, oldest first."""
    _, events = tables()
    query = select(events.c.ms, events.c.seq, events.c.fields)
    query = query.where(events.c.prefix == prefix, events.c.job_id == job_id)
    found = connection.execute(query.order_by(events.c.ms, events.c.seq))
    return [(row.ms, row.seq, row.fields) for row in found]
