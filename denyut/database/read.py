"""What Redis should have: the rows of jobs that are not over, or whose retention is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import select, tuple_

from denyut.database.tables import gone_table, tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

__all__ = ["Owed", "read_events", "read_gone", "read_owed", "read_records"]


class Owed(NamedTuple):
    """A job that Redis should have. ``forget_at`` is until when (us); 0: as long as nobody has settled it."""

    forget_at: int
    id: str
    version: int


def read_owed(
    connection: Connection, prefix: str, now_us: int, *, after: Owed | None = None, limit: int = 1000
) -> list[Owed]:
    """Return jobs that Redis should have: those without an end, then those by when they may be forgotten.

    Each part is a walk along an index that has no other rows: it costs nothing how many jobs are over.

    Args:
        connection: to the job store.
        prefix: of the deployment.
        now_us: Redis' time; the same for all pages.
        after: the last job of the page before.
        limit: most jobs.
    """
    found: list[Owed] = []
    if after is None or not after.forget_at:
        jobs, _ = tables()
        endless = select(jobs.c.id, jobs.c.version).where(jobs.c.prefix == prefix, jobs.c.forget_at.is_(None))
        endless = endless if after is None else endless.where(jobs.c.id > after.id)
        rows = connection.execute(endless.order_by(jobs.c.id).limit(limit))
        found = [Owed(0, row.id, row.version) for row in rows]
        after = None
    return (
        found
        if len(found) == limit
        else found + _ending(connection, prefix, now_us, after, limit - len(found))
    )


def _ending(connection: Connection, prefix: str, now_us: int, after: Owed | None, limit: int) -> list[Owed]:
    jobs, _ = tables()
    place = tuple_(jobs.c.forget_at, jobs.c.id)
    query = select(jobs.c.forget_at, jobs.c.id, jobs.c.version).where(jobs.c.prefix == prefix)
    if after is None:
        query = query.where(jobs.c.forget_at > now_us)
    else:  # both: the first is what every planner makes the begin of an index scan
        query = query.where(jobs.c.forget_at >= after.forget_at, place > tuple_(after.forget_at, after.id))
    found = connection.execute(query.order_by(jobs.c.forget_at, jobs.c.id).limit(limit))
    return [Owed(row.forget_at, row.id, row.version) for row in found]


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
