"""What one scrape reads of the store: a few pipelined round trips, however many jobs there are."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from denyut.monitoring.heads import read_heads
from denyut.monitoring.partition import read_partitions
from denyut.monitoring.workers import live_workers
from denyut.tasks.saving.backlog import read_backlog

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from denyut.app import Denyut
    from denyut.monitoring.partition import Partition
    from denyut.monitoring.workers import Worker
    from denyut.tasks.outbox.report import Told
    from denyut.tasks.saving.backlog import Backlog

__all__ = ["Scrape", "scrape"]

#: The youngest job, by the time it was queued, that was claimed from a queue: a time and no count.
_PASSED = "passed_us:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrape:
    """What the store says.

    ``started`` has the start (us) of the newest attempt of each job that holds a lease, ``shards`` the
    counters and the number of streams of each median shard, ``store`` how the
    job store is doing, if there is one, ``outboxes`` what relays have told of each.
    """

    partitions: list[Partition]
    started: list[int]
    workers: list[Worker]
    shards: list[tuple[dict[str, int], int]]
    store: Backlog | None = None
    outboxes: Sequence[Told] = ()

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
    partitions = read_partitions(pulse, client)
    heads = read_heads(pulse, client, [job_id for partition in partitions for job_id in partition.leases])
    pipe = client.pipeline(transaction=False)
    for shard in shards:
        pipe.hgetall(keys.shard_counters(shard))
        pipe.scard(keys.shard_streams(shard))
    replies = iter(pipe.execute())
    return Scrape(
        partitions=partitions,
        started=[head.started_at for head in heads.values() if head.started_at],
        workers=live_workers(pulse, client),
        shards=[(_counts(next(replies)), next(replies)) for _ in shards],
        store=read_backlog(pulse, client) if keys.stored else None,
        outboxes=_outboxes(pulse, client),
    )


def _outboxes(pulse: Denyut, client: Any) -> list[Told]:
    if not pulse.settings.outbox_urls:
        return []
    from denyut.tasks.outbox.report import read_told

    return read_told(pulse, client)


def _counts(raw: Mapping[bytes, bytes]) -> dict[str, int]:
    return {name.decode(): int(count) for name, count in raw.items()}
