"""Which jobs there are: the indexes of all partitions, merged, newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from denyut.states import State

if TYPE_CHECKING:
    from collections.abc import Iterator

    from denyut.app import Denyut
    from denyut.keys import PartitionKeys

__all__ = ["list_ids"]


def list_ids(
    pulse: Denyut, state: State | None, cursor: str | None, limit: int
) -> Iterator[tuple[list[str], str | None]]:
    """Yield the ids of jobs in pages of ``limit``, each with the cursor of what follows.

    The order is by the score of the index that a job is in (deadline, due time, end), then by id,
    descending; a cursor is ``score:id`` of the last job given.

    Raises:
        ValueError: if ``cursor`` is not one.
    """
    top, last = _parse(cursor)
    while True:
        rows = sorted(_rows(pulse, state, top, limit + 1), reverse=True)
        if last is not None:
            rows = [row for row in rows if row < (top, last)]
        page = rows[:limit]
        if not page:
            yield [], None
            return
        top, last = page[-1]
        more = len(rows) > limit
        yield [job_id for _, job_id in page], f"{top:.0f}:{last}" if more else None
        if not more:
            return


def _rows(pulse: Denyut, state: State | None, top: float, most: int) -> set[tuple[float, str]]:
    pipe = pulse.store.client.pipeline(transaction=False)
    for partition in pulse.keys.all_partitions():
        for index in _indexes(partition, state):
            # Jobs of one score are all wanted, so that none is lost between two pages.
            pipe.zrange(index, top, "-inf", desc=True, byscore=True, offset=0, num=most, withscores=True)
    best: dict[str, float] = {}
    for found in pipe.execute():
        for job_id, score in found:
            name = job_id.decode()
            best[name] = max(score, best.get(name, score))
    return {(score, name) for name, score in best.items()}


def _indexes(partition: PartitionKeys, state: State | None) -> list[str]:
    waiting: dict[State | None, list[str]] = {
        None: [partition.leases, partition.queued, partition.schedule, partition.done],
        State.RUNNING: [partition.leases],
        State.QUEUED: [partition.queued],
        State.SCHEDULED: [partition.schedule],
        State.RETRYING: [partition.schedule],
    }
    return waiting.get(state, [partition.done, partition.leases])


def _parse(cursor: str | None) -> tuple[Any, str | None]:
    if cursor is None:
        return float("inf"), None
    score, found, job_id = cursor.partition(":")
    if not found or not score.isdigit():
        raise ValueError(f"cursor={cursor!r}: must be the cursor of a page that was listed before")
    return float(score), job_id
