"""Which jobs there are: the indexes of all partitions, merged, newest first.

The order is by the time of a job's last change of state: when it ended, when its newest attempt
began, when it was queued, when it is due. A job that changes while somebody turns pages moves to the
top, as in any list that is newest first; one that does not change is never left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from denyut.states import State

if TYPE_CHECKING:
    from denyut.app import Denyut
    from denyut.keys import PartitionKeys

__all__ = ["MOST_LOOKED_AT", "find_jobs", "parse_cursor"]

#: Most jobs that one call looks at, however few of them fit.
MOST_LOOKED_AT = 20_000
_A_TRIP = 1000


class _Place(NamedTuple):
    """A place in the order."""

    time: int
    job_id: str


def find_jobs(
    pulse: Denyut, *, state: State | None, task: str | None, limit: int, cursor: str | None
) -> tuple[list[str], str | None]:
    """Return the ids of at most ``limit`` jobs that fit, newest first, and the cursor of what follows.

    The cursor is None at the end. Fewer than ``limit`` may come with a cursor, even none.

    Raises:
        ValueError: if ``cursor`` is not one.
    """
    after = parse_cursor(cursor)
    running = _running(pulse) if _has_lease(state) else []
    found: list[str] = []
    looked, size = 0, min(limit + 1, _A_TRIP)
    while True:
        places = _next_places(pulse, state, running, after, size)
        fits = _fits(pulse, places, state, task)
        for place, fit in zip(places, fits, strict=True):
            if len(found) == limit:
                return found, _cursor(after)
            after = place
            if fit:
                found.append(place.job_id)
        looked += len(places)
        if len(places) < size:
            return found, None
        if looked >= MOST_LOOKED_AT:
            return found, _cursor(after)
        size = min(2 * size, _A_TRIP)


def _next_places(
    pulse: Denyut, state: State | None, running: list[_Place], after: _Place | None, size: int
) -> list[_Place]:
    newest_first = {"desc": True, "byscore": True, "withscores": True}
    pipe = pulse.store.client.pipeline(transaction=False)
    for partition in pulse.keys.all_partitions():
        for index in _indexes(partition, state):
            below = "+inf" if after is None else f"({after.time}"
            pipe.zrange(index, below, "-inf", **newest_first, offset=0, num=size)
            if after is not None:  # all of that very time: the order goes on by id
                pipe.zrange(index, after.time, after.time, **newest_first)
    newest: dict[str, int] = {place.job_id: place.time for place in running}
    for rows in pipe.execute():
        for name, score in rows:
            job_id = name.decode()
            newest[job_id] = max(int(score), newest.get(job_id, 0))
    places = (_Place(time, job_id) for job_id, time in newest.items())
    return sorted((place for place in places if after is None or place < after), reverse=True)[:size]


def _running(pulse: Denyut) -> list[_Place]:
    """Return the jobs with a lease by when they began: the index's own order changes with every beat."""
    client = pulse.store.client
    pipe = client.pipeline(transaction=False)
    for partition in pulse.keys.all_partitions():
        pipe.zrange(partition.leases, 0, -1)
    job_ids = [name.decode() for names in pipe.execute() for name in names]
    pipe = client.pipeline(transaction=False)
    for job_id in job_ids:
        pipe.hmget(pulse.keys.job(job_id).record, "finished_at", "started_at")
    times = [int(finished or started or 0) for finished, started in pipe.execute()]
    return [_Place(time, job_id) for time, job_id in zip(times, job_ids, strict=True)]


def _fits(pulse: Denyut, places: list[_Place], state: State | None, task: str | None) -> list[bool]:
    """Whether each job is still there, in this state and of this task (None: any)."""
    pipe = pulse.store.client.pipeline(transaction=False)
    for place in places:
        pipe.hmget(pulse.keys.job(place.job_id).record, "state", "task")
    return [
        bool(is_state)
        and (state is None or is_state.decode() == state)
        and (task is None or (is_task or b"").decode() == task)
        for is_state, is_task in pipe.execute()
    ]


def _indexes(partition: PartitionKeys, state: State | None) -> list[str]:
    """Return the indexes besides ``leases``. What is in ``held`` is in ``queued``, too."""
    every = {
        State.RUNNING: [],
        State.QUEUED: [partition.queued],
        State.SCHEDULED: [partition.schedule],
        State.RETRYING: [partition.schedule],
        None: [partition.queued, partition.schedule, partition.done],
    }
    return every.get(state, [partition.done])


def _has_lease(state: State | None) -> bool:
    return state not in (State.QUEUED, State.SCHEDULED, State.RETRYING)


def _cursor(place: _Place | None) -> str | None:
    return None if place is None else f"{place.time}:{place.job_id}"


def parse_cursor(cursor: str | None) -> _Place | None:
    """Return the place that a cursor names. Raises ValueError if it is none."""
    if cursor is None:
        return None
    time, found, job_id = cursor.partition(":")
    if not found or not (time.isascii() and time.isdigit()):
        raise ValueError(f"cursor={cursor!r}: must be the cursor of a page that was listed before")
    return _Place(int(time), job_id)
