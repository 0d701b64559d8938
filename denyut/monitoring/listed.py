"""Which jobs Redis lists itself, so that the job store need not."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from denyut.scripts import Script, run_all

if TYPE_CHECKING:
    from collections.abc import Sequence

    from denyut.app import Denyut

__all__ = ["read_listed"]

LISTED = Script("denyut.monitoring", "listed")


def read_listed(pulse: Denyut, client: Any, job_ids: Sequence[str]) -> set[str]:
    """Return those of the jobs that an index of Redis has, in one round trip.

    Args:
        pulse: the app's Denyut.
        client: a Redis client.
        job_ids: some hundreds at most, so that no call holds Redis up.

    Raises:
        redis.exceptions.RedisError: if they cannot be read.
    """
    parts: dict[int, list[str]] = defaultdict(list)
    for job_id in job_ids:
        parts[pulse.keys.partition_of(job_id)].append(job_id)
    calls = []
    for number, ids in parts.items():
        part = pulse.keys.partition(number)
        calls.append(LISTED.with_([part.done, part.queued, part.schedule, part.leases], ids))
    replies = run_all(client, calls)
    return {
        job_id
        for ids, reply in zip(parts.values(), replies, strict=True)
        for job_id, there in zip(ids, reply, strict=True)
        if there
    }
