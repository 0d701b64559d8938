"""Which jobs there are: the indexes of all partitions, and what only the job store still has, newest first.

The order is by the time of a job's last change of state: when it ended, when its newest attempt
began, when it was queued, when it is due. A job that changes while somebody turns pages moves to the
top, as in any list that is newest first; one that does not change is never left out, and comes once.

What Redis lists is listed as Redis has it; the job store adds the jobs that no index of Redis has. A job
keeps its place when Redis forgets it, so it comes once also if that happens between two pages.
"""

from __future__ import annotations

from heapq import merge
from itertools import islice, takewhile
from typing import TYPE_CHECKING, NamedTuple

from denyut.monitoring.heads import read_heads
from denyut.monitoring.listed import read_listed
from denyut.states import State
from denyut.tasks.pages import Place, StoredPlace, cursor_of, first_pages, parse_cursor, walk
from denyut.tasks.saving.stored_places import StoredPlaces

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from denyut.app import Denyut
    from denyut.keys import PartitionKeys
    from denyut.wanted import Wanted

__all__ = ["MOST_LOOKED_AT", "Found", "find_jobs", "parse_cursor"]

#: Most jobs that one call looks at, however few of them fit.
MOST_LOOKED_AT = 20_000
_A_TRIP = 1000


class Found(NamedTuple):
    """A page: its ids, the cursor of what follows (None at the end), whether the store could be asked."""

    ids: list[str]
    cursor: str | None
    complete: bool


def find_jobs(pulse: Denyut, wanted: Wanted, *, limit: int, cursor: str | None) -> Found:
    """Return at most ``limit`` jobs that are wanted, newest first.

    Fewer than ``limit`` may come with a cursor, even none.

    Raises:
        ValueError: if ``cursor`` is not one.
    """
    after, looked = _begin(wanted, parse_cursor(cursor)), 0
    size = min((limit + 1) * (2 if pulse.keys.stored else 1), _A_TRIP)
    stored = StoredPlaces(pulse, wanted, after, size)
    places = _all_places(pulse, wanted, stored, after, size)
    found: dict[str, None] = {}
    while chunk := list(islice(places, size)):
        shown = _shown(pulse, wanted, chunk)
        for place in chunk:
            if len(found) == limit or looked == MOST_LOOKED_AT:
                return Found(list(found), cursor_of(after), stored.complete)
            after, looked = place, looked + 1
            if place in shown:
                found.setdefault(place.job_id)  # it may have moved from index to index meanwhile
        size = _A_TRIP
    return Found(list(found), None, stored.complete)


def _begin(wanted: Wanted, after: Place | None) -> Place | None:
    """Return the place after which the page begins: of the cursor, or the end of the time that is wanted."""
    end = None if wanted.until is None else Place(wanted.until, "")
    return min((each for each in (after, end) if each is not None), default=None)


def _shown(pulse: Denyut, wanted: Wanted, chunk: Sequence[Place]) -> set[Place]:
    """Return the places of wanted jobs: those of Redis, and of the store if no index of Redis has the job."""
    client = pulse.store.client
    heads = read_heads(pulse, client, {place.job_id for place in chunk if not _is_stored(place)})
    listed = read_listed(pulse, client, [place.job_id for place in chunk if _is_stored(place)])
    shown = {place for place in chunk if _is_stored(place) and place.job_id not in listed}
    for place in chunk:
        head = heads.get(place.job_id)
        if not _is_stored(place) and head and wanted.fits(head.state, head.task, head.key):
            shown.add(place)
    return shown


def _is_stored(place: Place) -> bool:
    return isinstance(place, StoredPlace)


def _all_places(
    pulse: Denyut, wanted: Wanted, stored: StoredPlaces, after: Place | None, size: int
) -> Iterator[Place]:
    """Yield every place after ``after`` where a wanted job may be, in order."""
    client = pulse.store.client
    running = sorted(_running(pulse, wanted), reverse=True) if _has_lease(wanted.state) else []
    keys = [key for partition in pulse.keys.all_partitions() for key in _indexes(partition, wanted.state)]
    first = first_pages(client, keys, after, size)
    walks = [walk(client, key, page, size) for key, page in zip(keys, first, strict=True)]
    found = merge((p for p in running if after is None or p < after), *walks, stored, reverse=True)
    since = wanted.since
    return found if since is None else takewhile(lambda place: place.time >= since, found)


def _running(pulse: Denyut, wanted: Wanted) -> list[Place]:
    """Return the jobs with a lease by when they began: the index's own order changes with every beat."""
    client = pulse.store.client
    pipe = client.pipeline(transaction=False)
    for partition in pulse.keys.all_partitions():
        pipe.zrange(partition.leases, 0, -1)
    heads = read_heads(pulse, client, [name.decode() for names in pipe.execute() for name in names])
    return [
        Place(head.finished_at or head.started_at, job_id)
        for job_id, head in heads.items()
        if wanted.fits(head.state, head.task, head.key)
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
