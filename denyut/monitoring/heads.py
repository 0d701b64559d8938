"""The first things to know of many jobs, in one round trip."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from denyut.scripts import Script, run_all

if TYPE_CHECKING:
    from collections.abc import Iterable

    from denyut.app import Denyut

__all__ = ["Head", "read_heads"]

HEADS = Script("denyut.monitoring", "heads")

#: Records in one call, so that none holds Redis up (about 1 us each).
_CHUNK = 1000
_FIELDS = 5


class Head(NamedTuple):
    """The state, task and key of a job, empty if there is none, and its times (us), 0 if not yet."""

    state: str
    task: str
    started_at: int
    finished_at: int
    key: str = ""


def read_heads(pulse: Denyut, client: Any, job_ids: Iterable[str]) -> dict[str, Head]:
    """Return the head of each job.

    Raises:
        redis.exceptions.RedisError: if they cannot be read.
    """
    by_partition: dict[int, list[str]] = defaultdict(list)
    for job_id in job_ids:
        by_partition[pulse.keys.partition_of(job_id)].append(job_id)
    chunks = [ids[at : at + _CHUNK] for ids in by_partition.values() for at in range(0, len(ids), _CHUNK)]
    calls = [HEADS.with_([pulse.keys.job(job_id).record for job_id in chunk]) for chunk in chunks]
    found: dict[str, Head] = {}
    for chunk, reply in zip(chunks, run_all(client, calls), strict=True):
        rows = (reply[at : at + _FIELDS] for at in range(0, len(reply), _FIELDS))
        found |= {job_id: _head(row) for job_id, row in zip(chunk, rows, strict=True)}
    return found


def _head(row: list[bytes]) -> Head:
    state, task, started, finished, key = row
    return Head(
        state.decode(),
        task.decode("utf-8", "replace"),
        int(started or 0),
        int(finished or 0),
        key.decode("utf-8", "replace"),
    )
