"""Which jobs there are: the indexes of all partitions, merged, newest first.

The order is by the time of a job's last change of state: when it ended, when its newest attempt
began, when it was queued, when it is due. A job that changes while somebody turns pages moves to the
top, as in any list that is newest first; one that does not change is never left out.
"""

from __future__ import annotations

from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from denyut.monitoring.heads import read_heads
from denyut.states import State
from denyut.tasks.pages import Place, cursor_of, first_pages, parse_cursor, walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from denyut.app import Denyut
    from denyut.keys import PartitionKeys
    from denyut.monitoring.heads import Head

__all__ = ["MOST_LOOKED_AT", "find_jobs", "parse_cursor"]

#: Most jobs that one call looks at, however few of them fit.
MOST_LOOKED_AT = 20_000
_A_TRIP = 1000


class _Wanted(NamedTuple):
    """What a job must be; None: anything."""

    state: State | None
    task: str | None

    def fits(self, head: Head) -> bool:
        return bool(head.state) and self.state in (None, head.state) and self.task in (None, head.task)


def find_jobs(
    pulse: Denyut, *, state: State | None, task: str | None, limit: int, cursor: str | None
) -> tuple[list[str], str | None]:
    """Return the ids of at most ``limit`` jobs that fit, newest first, and the cursor of what follows.

    The cursor is None at the end. Fewer than ``limit`` may come with a cursor, even none.

    Raises:
        ValueError: if ``cursor`` is not one.
    """
    wanted, after, looked = _Wanted(state, task), parse_cursor(cursor), 0
    size = min(limit + 1, _A_TRIP)
    places = _all_places(pulse, wanted, after, size)
    found: dict[str, None] = {}
    while chunk := list(islice(places, size)):
        heads = read_heads(pulse, pulse.store.client, [place.job_id for place in chunk])
        for place in chunk:
            if len(found) == limit or looked == MOST_LOOKED_AT:
                return list(found), cursor_of(after)
            after, looked = place, looked + 1
            if wanted.fits(heads[place.job_id]):
                found.setdefault(place.job_id)  # it may have moved from index to index meanwhile
        size = _A_TRIP
    return list(found), None


def _all_places(pulse: Denyut, wanted: _Wanted, after: Place | None, size: int) -> Iterator[Place]:
    """Yield every place after ``after`` where a wanted job may be, in order."""
    client = pulse.store.client
    running = sorted(_running(pulse, wanted), reverse=True) if _has_lease(wanted.state) else []
    keys = [key for partition in pulse.keys.all_partitions() for key in _indexes(partition, wanted.state)]
    first = first_pages(client, keys, after, size)
    walks = [walk(client, key, page, size) for key, page in zip(keys, first, strict=True)]
    return merge((p for p in running if after is None or p < after), *walks, reverse=True)


def _running(pulse: Denyut, wanted: _Wanted) -> list[Place]:
    """Return the jobs with a lease by when they began: the index's own order changes with every beat."""
    client = pulse.store.client
    pipe = client.pipeline(transaction=False)
    for partition in pulse.keys.all_partitions():
        pipe.zrange(partition.leases, 0, -1)
    heads = read_heads(pulse, client, [name.decode() for names in pipe.execute() for name in names])
    return [
        Place(head.finished_at or head.started_at, job_id)
        for job_id, head in heads.items()
        if wanted.fits(head)
    ]


def _indexes(partition: PartitionKeys, state: State | None) -> list[str]:
    """Return the indexes besides ``leases``. What is in ``held`` is in ``queued``, too."""
    every: dict[State | None, list[str]] = {
        State.RUNNING: [],
        State.QUEUED: [partition.queued],
        State.SCHEDULED: [partition.schedule],
        State.RETRYING: [partition.schedule],
        None: [partition.queued, partition.schedule, partition.done],
    }
    return every.get(state, [partition.done])


def _has_lease(state: State | None) -> bool:
    return state not in (State.QUEUED, State.SCHEDULED, State.RETRYING)
