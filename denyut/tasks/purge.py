"""Letting go of dead letters: the old ones in small batches, and those that somebody names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from denyut.scripts import Script, run_all
from denyut.tasks.claim import us
from denyut.tasks.dead import find_dead, read_letters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from denyut.app import Denyut

__all__ = ["purge_letters", "purge_old", "purge_some"]

PURGE = Script("denyut.tasks", "purge")
OLD_DEAD = Script("denyut.tasks", "old_dead")

#: Most dead letters of one partition in one batch, so that no batch holds Redis up.
BATCH = 100


def purge_old(pulse: Denyut, client: Any, *, batch: int = BATCH) -> int:
    """Purge what is older than ``denyut_dead_retention``, and the oldest beyond ``denyut_dead_most``.

    Args:
        pulse: the app's Denyut.
        client: a Redis client.
        batch: most letters of each partition.

    Returns:
        How many were purged. There may be more: call it again later.

    Raises:
        redis.exceptions.RedisError: it is done by the next call.
    """
    settings, partitions = pulse.settings, pulse.keys.all_partitions()
    most = max(settings.dead_most // len(partitions), 1)
    args = [us(settings.dead_retention), most, batch]
    found = run_all(client, [OLD_DEAD.with_([partition.dead], args) for partition in partitions])
    return sum(purge_letters(pulse, [job_id.decode() for job_id in ids]) for ids in found if ids)


def purge_some(
    pulse: Denyut, job_ids: Sequence[str], *, task: str | None = None, older_than: float | None = None
) -> int:
    """Purge dead letters that somebody names, or all that fit; returns how many they were.

    Args:
        pulse: the app's Denyut.
        job_ids: these; none: all.
        task: only those of this task.
        older_than: only those that died so many seconds ago.
    """
    purged, cursor, limit = 0, None, BATCH
    before = None if older_than is None else pulse.store.now_us() - us(older_than)
    while True:
        ids, cursor = (
            (list(job_ids), None) if job_ids else find_dead(pulse, task=task, limit=limit, cursor=cursor)
        )
        letters = read_letters(pulse, ids) if task is not None or before is not None else None
        if letters is not None:
            fit = (each for each in letters if task in (None, each.task))
            ids = [each.id for each in fit if before is None or (each.at or 0) <= before]
        purged += purge_letters(pulse, ids)
        if cursor is None:
            return purged


def purge_letters(pulse: Denyut, job_ids: Sequence[str]) -> int:
    """Purge the dead letters ``job_ids``; returns how many of them were some.

    What is younger than its retention keeps a short record, so that a late copy of its message is
    still known to be one. A letter of which Celery has not been told yet stays.
    """
    calls = [PURGE.with_(pulse.keys.script(job_id), [job_id]) for job_id in job_ids]
    return sum(reply == b"PURGED" for reply in run_all(pulse.store.client, calls))
