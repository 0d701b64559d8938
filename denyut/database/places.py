"""The lists of the job store: the places of the jobs that are wanted, newest first, page by page.

``at`` is when a job ended, else when it began, was queued or is due; the id decides between equal times.
Each query walks one index from where the last page ended, so a page costs the same wherever it is, and
however many rows there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import select, tuple_, union_all

from denyut.database.tables import tables
from denyut.states import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection, Select

    from denyut.wanted import Wanted

__all__ = ["read_dead_places", "read_places"]

_END_OF_TIME = 2**63 - 1

At = tuple[int, str]


def read_places(
    connection: Connection, prefix: str, wanted: Wanted, *, before: At | None = None, limit: int = 100
) -> list[At]:
    """Return time (us) and id of jobs that are wanted, newest first.

    Args:
        connection: to the job store.
        prefix: of the deployment.
        wanted: which jobs. Texts must be as columns have them (``as_column`` of the snapshots).
        before: the last place of the page before.
        limit: most places.
    """
    jobs, _ = tables()
    within = _within(prefix, wanted, before)
    if wanted.key is not None:
        one = within.where(jobs.c.key == wanted.key)
        one = one if wanted.task is None else one.where(jobs.c.task == wanted.task)
        return _read(
            connection, one if wanted.state is None else one.where(jobs.c.state == wanted.state), limit
        )
    if wanted.task is not None:
        within = within.where(jobs.c.task == wanted.task)
    # The indexes are by state, then time: without a state each is walked, and the walks are merged here.
    # One index the fewer to write is worth more than a shorter query.
    states = [wanted.state] if wanted.state is not None else list(State)
    return _read_all(connection, [within.where(jobs.c.state == str(state)) for state in states], limit)


def read_dead_places(
    connection: Connection, prefix: str, wanted: Wanted, *, before: At | None = None, limit: int = 100
) -> list[At]:
    """Return time (us) and id of dead letters: jobs whose budget is spent and that nobody has let go of."""
    jobs, _ = tables()
    letters = _within(prefix, wanted, before).where(jobs.c.budget.is_not(None), jobs.c.forget_at.is_(None))
    if wanted.task is not None:
        letters = letters.where(jobs.c.task == wanted.task)
    return _read(connection, letters, limit)


def _within(prefix: str, wanted: Wanted, before: At | None) -> Select[Any]:
    jobs, _ = tables()
    last = _END_OF_TIME if wanted.until is None else wanted.until - 1
    if before is not None and before[0] <= last:
        # Both: the first is what every planner makes the end of an index scan.
        place = tuple_(jobs.c.at, jobs.c.id) < tuple_(*before)
        found = select(jobs.c.at, jobs.c.id).where(jobs.c.at <= before[0], place)
    else:
        found = select(jobs.c.at, jobs.c.id).where(jobs.c.at <= last)
    found = found.where(jobs.c.prefix == prefix)
    return found if wanted.since is None else found.where(jobs.c.at >= wanted.since)


def _newest_first(found: Select[Any], limit: int) -> Select[Any]:
    jobs, _ = tables()
    return found.order_by(jobs.c.at.desc(), jobs.c.id.desc()).limit(limit)


def _read(connection: Connection, found: Select[Any], limit: int) -> list[At]:
    return [(row.at, row.id) for row in connection.execute(_newest_first(found, limit))]


def _read_all(connection: Connection, walks: Sequence[Select[Any]], limit: int) -> list[At]:
    if len(walks) == 1:
        return _read(connection, walks[0], limit)
    parts = [_newest_first(walk, limit).subquery(f"walk_{n}") for n, walk in enumerate(walks)]
    union = union_all(*(select(part.c.at, part.c.id) for part in parts))
    rows = sorted(((row.at, row.id) for row in connection.execute(union)), reverse=True)
    return rows[:limit]
