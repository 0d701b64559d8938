"""The metrics, read from Redis at scrape time: counters were added by the scripts that made the changes.

So they stay right with many processes, hosts and restarts, and nothing is counted from lossy events.
Labels are bounded: task, queue, state; never a job, a host or a process.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from kombu.exceptions import OperationalError
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from redis.exceptions import RedisError

from denyut.median.routing import median_queue
from denyut.tasks.depth import queue_depth

if TYPE_CHECKING:
    from collections.abc import Iterator

    from denyut.app import Denyut

__all__ = ["PulseCollector"]

#: Events of a job that are counted; what else is in the counters is bookkeeping.
EVENTS = frozenset(
    {
        *("enqueued", "duplicate", "conflict", "adopted", "unpublished"),
        *("claimed", "busy", "done", "stale", "lost"),
        *("completed", "failed", "cancelled", "expired", "ignored", "rejected", "retried", "dead"),
        *("crashed", "recovered", "republished", "replayed"),
    }
)
_INDEXES = {"running": "leases", "queued": "queued", "scheduled": "schedule", "held": "held"}
_BUCKETS_US = (1, 2, 4, 6, 8, 10, 15, 30, 60)


class PulseCollector:
    """A prometheus_client collector for one app.

    Args:
        pulse: the app's Denyut.
    """

    def __init__(self, pulse: Denyut) -> None:
        self.pulse = pulse

    def describe(self) -> list[Any]:
        """Nothing is known before the first scrape: registering must not connect."""
        return []

    def collect(self) -> Iterator[Any]:
        """Yield all metrics; with Redis away only ``denyut_up 0``."""
        up = GaugeMetricFamily("denyut_up", "Whether Redis could be read.")
        try:
            found = list(self._read())
        except (RedisError, OSError):
            up.add_metric([], 0)
            yield up
            return
        up.add_metric([], 1)
        yield up
        yield from found
        yield from self._queues()

    def _read(self) -> Iterator[Any]:
        client = self.pulse.store.client
        seconds, micros = client.time()
        now = seconds * 1_000_000 + micros
        yield from self._jobs(client)
        yield from self._gauges(client, now)
        yield from self._workers(client, now)
        yield from self._medians(client)

    def _jobs(self, client: Any) -> Iterator[Any]:
        pipe = client.pipeline(transaction=False)
        for partition in self.pulse.keys.all_partitions():
            pipe.hgetall(partition.counters)
        total: Counter[str] = Counter()
        for counters in pipe.execute():
            total.update({name.decode(): int(value) for name, value in counters.items()})
        jobs = CounterMetricFamily(
            "denyut_jobs", "What happened to jobs, added where it happened.", labels=["event", "task"]
        )
        for name, value in sorted(total.items()):
            event, _, task = name.partition(":")
            if event in EVENTS:
                jobs.add_metric([event, task], value)
        yield jobs
        yield _recovery(total)

    def _gauges(self, client: Any, now: int) -> Iterator[Any]:
        pipe = client.pipeline(transaction=False)
        partitions = self.pulse.keys.all_partitions()
        for partition in partitions:
            for index in _INDEXES.values():
                key = getattr(partition, index)
                pipe.zcard(key)
                pipe.zrange(key, 0, 0, withscores=True)
            pipe.zcount(partition.leases, "-inf", now)
        replies = iter(pipe.execute())
        sizes: Counter[str] = Counter()
        oldest: dict[str, float] = {}
        lapsed = 0
        for _ in partitions:
            for state in _INDEXES:
                sizes[state] += next(replies)
                for _, score in next(replies):
                    oldest[state] = min(score, oldest.get(state, score))
            lapsed += next(replies)
        yield _gauge("denyut_jobs_now", "Jobs by state, now.", "state", {s: sizes[s] for s in _INDEXES})
        ages = {"queued": max(now - oldest.get("queued", now), 0) / 1e6}
        ages["overdue"] = max(now - oldest.get("scheduled", now), 0) / 1e6
        yield _gauge("denyut_oldest_age_seconds", "Age of the oldest queued or overdue job.", "state", ages)
        yield _plain("denyut_running_without_lease", "Running jobs whose worker is silent.", lapsed)

    def _workers(self, client: Any, now: int) -> Iterator[Any]:
        keys = self.pulse.keys
        since = now - round(self.pulse.settings.alive_for * 1e6)
        owners = [owner.decode() for owner in client.zrangebyscore(keys.workers(), since, "+inf")]
        pipe = client.pipeline(transaction=False)
        for owner in owners:
            pipe.hget(keys.worker(owner), "beat_lag_ms")
        lags = [int(float(lag)) / 1000 for lag in pipe.execute() if lag is not None]
        yield _plain("denyut_workers", "Workers that beat.", len(owners))
        yield _plain("denyut_beat_lag_seconds", "How late the latest of all beats was.", max(lags, default=0))

    def _medians(self, client: Any) -> Iterator[Any]:
        shards = range(self.pulse.settings.median_shards)
        pipe = client.pipeline(transaction=False)
        for shard in shards:
            pipe.hgetall(self.pulse.keys.shard_counters(shard))
            pipe.scard(self.pulse.keys.shard_streams(shard))
        replies = iter(pipe.execute())
        total: Counter[str] = Counter()
        streams = 0
        for _ in shards:
            total.update({name.decode(): int(value) for name, value in next(replies).items()})
            streams += next(replies)
        events = CounterMetricFamily(
            "denyut_median_events", "Events by what became of them.", labels=["outcome"]
        )
        for outcome in ("accepted", "duplicates", "conflicts"):
            events.add_metric([outcome], total[outcome])
        yield events
        batches = CounterMetricFamily("denyut_median_batches", "Batches of events applied.")
        batches.add_metric([], total["batches"])
        yield batches
        yield _plain("denyut_median_streams", "Streams that have events.", streams)

    def _queues(self) -> Iterator[Any]:
        pulse = self.pulse
        names = dict.fromkeys([*pulse.app.amqp.queues])
        names |= dict.fromkeys(median_queue(pulse, s).name for s in range(pulse.settings.median_shards))
        try:
            depths = {name: queue_depth(pulse.app, name) for name in names}
        except (OperationalError, OSError, RedisError):
            return
        yield _gauge("denyut_queue_depth", "Messages that wait, all priorities.", "queue", depths)


def _recovery(total: Counter[str]) -> HistogramMetricFamily:
    histogram = HistogramMetricFamily(
        "denyut_recovery_seconds", "From the last beat of a crashed attempt to the next claim."
    )
    count = total["recovery_us_count"]
    buckets = [(f"{le:.1f}", total[f"recovery_us_bucket:{le * 1_000_000}"]) for le in _BUCKETS_US]
    histogram.add_metric([], [*buckets, ("+Inf", count)], total["recovery_us_sum"] / 1e6)
    return histogram


def _gauge(name: str, text: str, label: str, values: dict[str, Any]) -> GaugeMetricFamily:
    gauge = GaugeMetricFamily(name, text, labels=[label])
    for key, value in values.items():
        gauge.add_metric([key], value)
    return gauge


def _plain(name: str, text: str, value: float) -> GaugeMetricFamily:
    gauge = GaugeMetricFamily(name, text)
    gauge.add_metric([], value)
    return gauge
