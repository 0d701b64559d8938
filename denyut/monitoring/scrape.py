"""What one scrape reads of the store: three pipelined round trips, however many jobs there are."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from denyut.monitoring.partition import Partition, partition_call
from denyut.scripts import run_all

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from denyut.app import Denyut

__all__ = ["Scrape", "scrape"]

#: The youngest job, by the time it was queued, that was claimed from a queue: a time and no count.
_PASSED = "passed_us:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrape:
    """What the store says.

    ``started`` has the start (us) of the newest attempt of each job that holds a lease, ``lags`` the
    seconds by which each live worker's heartbeat is late, ``shards`` the counters and the number of
    streams of each median shard.
    """

    partitions: list[Partition]
    started: list[int]
    lags: list[float]
    shards: list[tuple[dict[str, int], int]]

    @property
    def now_us(self) -> int:
        """Redis' time of the read."""
        return self.partitions[-1].now_us

    @property
    def counters(self) -> Counter[str]:
        """The counters of all partitions together."""
        total: Counter[str] = Counter()
        for partition in self.partitions:
            total.update({n: c for n, c in partition.counters.items() if not n.startswith(_PASSED)})
        return total

    @property
    def queues(self) -> set[str]:
        """The queues from which jobs have been claimed."""
        names = {name for partition in self.partitions for name in partition.counters}
        return {name.removeprefix(_PASSED) for name in names if name.startswith(_PASSED)}


def scrape(pulse: Denyut, client: Any) -> Scrape:
    """Read the store.

    Raises:
        redis.exceptions.RedisError: if it cannot be read.
    """
    keys, shards = pulse.keys, range(pulse.settings.median_shards)
    calls = [partition_call(partition) for partition in keys.all_partitions()]
    partitions = [Partition.from_reply(reply) for reply in run_all(client, calls)]
    leased = [job_id for partition in partitions for job_id in partition.leases]
    pipe = client.pipeline(transaction=False)
    for job_id in leased:
        pipe.hget(keys.job(job_id).record, "started_at")
    for shard in shards:
        pipe.hgetall(keys.shard_counters(shard))
        pipe.scard(keys.shard_streams(shard))
    *replies, owners = pipe.zrange(keys.workers(), 0, -1).execute()
    started, medians = replies[: len(leased)], iter(replies[len(leased) :])
    return Scrape(
        partitions=partitions,
        started=[int(at) for at in started if at],
        lags=_lags(pulse, client, owners, partitions[-1].now_us),
        shards=[(_counts(next(medians)), next(medians)) for _ in shards],
    )


def _lags(pulse: Denyut, client: Any, owners: Sequence[bytes], now_us: int) -> list[float]:
    pipe = client.pipeline(transaction=False)
    for owner in owners:
        pipe.hmget(pulse.keys.worker(owner.decode()), "last_heartbeat", "beat_lag_ms")
    # A worker that is gone stays in the list for a while, but its Hash has a time to live.
    live = [(int(beat), float(lag or 0)) for beat, lag in pipe.execute() if beat]
    interval = pulse.settings.beat_interval
    # Late is the last beat that came, or the next one that has not.
    return [max(lag / 1e3, (now_us - beat) / 1e6 - interval) for beat, lag in live]


def _counts(raw: Mapping[bytes, bytes]) -> dict[str, int]:
    return {name.decode(): int(count) for name, count in raw.items()}
