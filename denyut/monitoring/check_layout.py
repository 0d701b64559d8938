"""Do the settings fit what is in Redis? A job or stream in another part than it hashes to is not found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from denyut.keys import Keys
from denyut.median.routing import shard_of
from denyut.monitoring.check import Check

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["check_partitions", "check_shards"]

#: The highest number that the settings allow.
_MOST = 1024
#: Jobs of each index, and streams of each shard, that are looked at.
_SAMPLE = 5


def check_partitions(pulse: Denyut, client: Any) -> Check:
    """The number of partitions is that with which the jobs were made."""
    setting = pulse.settings.partitions
    pipe = client.pipeline(transaction=False)
    for partition in Keys(pulse.settings.prefix, _MOST).all_partitions():
        pipe.exists(partition.marker)
    used = [number for number, found in enumerate(pipe.execute()) if found]
    hint = "set denyut_partitions to what it was when the first job was made, everywhere"
    if used and used[-1] >= setting:
        message = f"denyut_partitions is {setting}, but partition {used[-1]} is in use (they count from 0)"
        return Check.fail("partitions", message, hint)
    for job_id, number in _some_jobs(pulse, client):
        wanted = pulse.keys.partition_of(job_id)
        if wanted != number:
            message = (
                f"with denyut_partitions={setting} job {job_id} is looked for in partition {wanted}, "
                f"but it is in {number}"
            )
            return Check.fail("partitions", message, hint)
    return Check.ok("partitions", f"{len(used)} of {setting} partitions are in use")


def check_shards(pulse: Denyut, client: Any) -> Check:
    """The number of median shards is that with which the streams were made."""
    setting = pulse.settings.median_shards
    pipe = client.pipeline(transaction=False)
    for shard in range(_MOST):
        pipe.srandmember(pulse.keys.shard_streams(shard), _SAMPLE)
    sample = [(name.decode(), shard) for shard, names in enumerate(pipe.execute()) for name in names]
    for stream, shard in sample:
        wanted = shard_of(stream, setting)
        if wanted != shard:
            message = (
                f"with denyut_median_shards={setting} stream {stream!r} is looked for in shard {wanted}, "
                f"but it is in {shard}"
            )
            hint = "set denyut_median_shards to what it was when the first event was recorded, everywhere"
            return Check.fail("shards", message, hint)
    return Check.ok(
        "shards", f"{len({shard for _, shard in sample})} of {setting} median shards have streams"
    )


def _some_jobs(pulse: Denyut, client: Any) -> list[tuple[str, int]]:
    pipe = client.pipeline(transaction=False)
    numbers = []
    for partition in pulse.keys.all_partitions():
        for index in (partition.leases, partition.queued, partition.schedule, partition.done):
            pipe.zrange(index, 0, _SAMPLE - 1)
            numbers.append(partition.partition)
    rows = zip(numbers, pipe.execute(), strict=True)
    return [(job_id.decode(), number) for number, job_ids in rows for job_id in job_ids]
