"""The metrics that a scrape makes: names, types and labels.

Counters were added by the scripts that made the changes, so they stay right with many processes, hosts
and restarts. Labels are bounded: task, queue, shard, state; never a job, a host or a process.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator, Mapping, Sequence

    from prometheus_client.core import Metric

    from denyut.monitoring.scrape import Scrape
    from denyut.tasks.outbox.report import Told
    from denyut.tasks.saving.backlog import Backlog

__all__ = ["EVENTS", "depth_metric", "metrics_of", "up_metric"]

#: Events of a job that are counted; what else is in the counters is bookkeeping.
EVENTS = frozenset(
    {
        *("enqueued", "duplicate", "conflict", "superseded", "adopted", "unpublished"),
        *("redone", "claimed", "busy", "done", "stale", "lost"),
        *("completed", "failed", "cancelled", "expired", "ignored", "rejected", "retried", "dead"),
        *("cancel_requested", "released"),
        *("stalled", "overran"),
        *("crashed", "drained", "suspected", "recovered", "republished", "replayed", "restored", "misfired"),
    }
)
#: What became of an event of a stream, and how apply.lua counts it.
_OUTCOMES = {"accepted": "accepted", "duplicate": "duplicates", "conflict": "conflicts"}
#: Bounds of the recovery histogram, in seconds; recovered.lua counts in them.
_BUCKETS = (1, 2, 4, 6, 8, 10, 15, 30, 60)
#: Bounds of the histogram of lateness, in seconds; due.lua counts in them, each job in one.
_LATENESS = (0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 300.0)


def up_metric(up: bool) -> Metric:
    """Return the metric that says whether Redis could be read."""
    return _gauge("denyut_up", "Whether Redis could be read.", up)


def depth_metric(depths: Mapping[str, int]) -> Metric:
    """Return the metric of messages that wait in the broker."""
    return _gauges("denyut_queue_depth", "Messages that wait in the broker.", "queue", depths)


def metrics_of(found: Scrape) -> Iterator[Metric]:
    """Yield every metric of the store."""
    counters = found.counters
    yield _events(counters)
    yield _letters(
        counters, "dead_now", GaugeMetricFamily, "denyut_dead_letters", "Dead letters that are kept."
    )
    yield _letters(counters, "buried", CounterMetricFamily, "denyut_buried", "Jobs that became dead letters.")
    yield _recovery(counters)
    yield _lateness(counters)
    lapsed = [deadline for partition in found.partitions for deadline in partition.lapsed.values()]
    yield _now(found)
    yield _oldest(found, lapsed)
    yield _gauge(
        "denyut_leases_lapsed", "Jobs whose lease has lapsed and whom nobody has moved on.", len(lapsed)
    )
    missing = sum(partition.missing for partition in found.partitions)
    yield _gauge("denyut_jobs_missing", "Accepted jobs that have neither ended nor are known.", missing)
    yield _gauge("denyut_workers", "Workers that beat.", len(found.workers))
    late = max((worker.late_s for worker in found.workers), default=0.0)
    yield _gauge("denyut_beat_lag_seconds", "How late the latest worker's heartbeat is.", max(late, 0.0))
    yield from _locks(found, counters)
    yield from _medians(found.shards)
    if found.store is not None:
        yield from _store(found.store)
    if found.outboxes:
        yield from _outbox(found.outboxes)


def _events(counters: Counter[str]) -> Metric:
    family = CounterMetricFamily("denyut_jobs", "What happened to jobs.", labels=["event", "task"])
    for name, count in sorted(counters.items()):
        event, _, task = name.partition(":")
        if event in EVENTS:
            family.add_metric([event, task], count)
    return family


def _locks(found: Scrape, counters: Counter[str]) -> Iterator[Metric]:
    held = sum(partition.locks for partition in found.partitions)
    yield _gauge("denyut_locks_held", "Locks of the app's own code that are held.", held)
    for what, text in (
        ("taken", "Locks that were taken."),
        ("lapsed", "Locks that were taken from a holder who had not renewed them in time."),
    ):
        family = CounterMetricFamily(f"denyut_locks_{what}", text)
        family.add_metric([], counters[f"lock_{what}"])
        yield family


def _letters(counters: Counter[str], what: str, kind: Any, name: str, text: str) -> Metric:
    family = kind(name, text, labels=["budget", "task"])
    for field, count in sorted(counters.items()):
        counted, _, rest = field.partition(":")
        if counted == what:
            budget, _, task = rest.partition(":")
            family.add_metric([budget, task], count)
    letters: Metric = family
    return letters


def _recovery(counters: Counter[str]) -> Metric:
    buckets = [(f"{bound:.1f}", counters[f"recovery_us_bucket:{bound * 1_000_000}"]) for bound in _BUCKETS]
    family = HistogramMetricFamily(
        "denyut_recovery_seconds", "From the last sign of life of a crashed attempt to the next claim."
    )
    family.add_metric(
        [], [*buckets, ("+Inf", counters["recovery_us_count"])], counters["recovery_us_sum"] / 1e6
    )
    return family


def _lateness(counters: Counter[str]) -> Metric:
    counts = [counters[f"late_us_bucket:{round(bound * 1_000_000)}"] for bound in _LATENESS]
    so_far = list(accumulate([*counts, counters["late_us_bucket:inf"]]))
    bounds = [*(str(bound) for bound in _LATENESS), "+Inf"]
    family = HistogramMetricFamily(
        "denyut_schedule_lateness_seconds", "From when a job was due to when it was published."
    )
    family.add_metric([], list(zip(bounds, so_far, strict=True)), counters["late_us_sum"] / 1e6)
    return family


def _now(found: Scrape) -> Metric:
    sizes = {
        "running": sum(len(partition.leases) for partition in found.partitions),
        "queued": sum(partition.queued for partition in found.partitions),
        "scheduled": sum(partition.scheduled for partition in found.partitions),
        "held": sum(partition.held for partition in found.partitions),
    }
    return _gauges("denyut_jobs_now", "Jobs by where they are; those held are also queued.", "state", sizes)


def _oldest(found: Scrape, lapsed: list[int]) -> Metric:
    since = {
        "running": found.started,
        "queued": [p.first_queued for p in found.partitions if p.first_queued is not None],
        "scheduled": [p.first_due for p in found.partitions if p.first_due is not None],
        "lapsed": lapsed,
    }
    ages = {
        state: max(found.now_us - min(times, default=found.now_us), 0) / 1e6 for state, times in since.items()
    }
    text = "How long the oldest runs, is queued, is over its due time, or is without its lease; 0 if none."
    return _gauges("denyut_oldest_age_seconds", text, "state", ages)


def _medians(shards: list[tuple[dict[str, int], int]]) -> Iterator[Metric]:
    events = CounterMetricFamily("denyut_median_events", "Events applied.", labels=["shard", "outcome"])
    batches = CounterMetricFamily("denyut_median_batches", "Batches applied.", labels=["shard"])
    for shard, (counters, _) in enumerate(shards):
        batches.add_metric([str(shard)], counters.get("batches", 0))
        for outcome, name in _OUTCOMES.items():
            events.add_metric([str(shard), outcome], counters.get(name, 0))
    yield events
    yield batches
    streams = {str(shard): count for shard, (_, count) in enumerate(shards)}
    yield _gauges("denyut_median_streams", "Streams that have events.", "shard", streams)


def _store(store: Backlog) -> Iterator[Metric]:
    yield _gauge(
        "denyut_store_up", "Whether the job store could be written when that was last tried.", not store.error
    )
    yield _gauge(
        "denyut_store_backlog", "Jobs that the job store has not seen, or not as they are now.", store.jobs
    )
    yield _gauge(
        "denyut_store_audit_backlog", "Actions by hand that the job store has not seen.", store.audit
    )
    text = "How long the oldest change waits to be written to the job store."
    yield _gauge("denyut_store_backlog_age_seconds", text, store.oldest_s)
    yield _gauge("denyut_store_refused", "Jobs that the job store refuses.", len(store.refused))
    for name, doc, value in (
        (
            "denyut_store_written",
            "Jobs written to the job store by workers, each as often as it was.",
            store.written,
        ),
        ("denyut_store_writes", "Transactions of workers in the job store.", store.writes),
        ("denyut_store_failures", "Writes of workers to the job store that failed.", store.failures),
    ):
        yield CounterMetricFamily(name, doc, value=value)


def _outbox(told: Sequence[Told]) -> Iterator[Metric]:
    up = not any(each.error for each in told)
    yield _gauge("denyut_outbox_up", "Whether every outbox could be read when that was last tried.", up)
    waiting, aside = sum(each.waiting for each in told), sum(each.aside for each in told)
    yield _gauge("denyut_outbox_backlog", "Jobs in an outbox that are not sent yet.", waiting)
    oldest = max(each.oldest_s for each in told)
    yield _gauge("denyut_outbox_backlog_age_seconds", "How long the oldest of them waits.", oldest)
    yield _gauge("denyut_outbox_aside", "Jobs in an outbox that could not be sent, and are set aside.", aside)
    ages = [each.counted_s for each in told if each.counted_s is not None]
    if len(ages) == len(told):
        text = "How long ago a relay has counted them; it grows if there is none."
        yield _gauge("denyut_outbox_look_age_seconds", text, max(ages))
    for name, doc, value in (
        ("denyut_outbox_sent", "Jobs sent from an outbox.", sum(each.sent for each in told)),
        ("denyut_outbox_refused", "Tries to send one that failed.", sum(each.refused for each in told)),
        ("denyut_outbox_failures", "Looks into an outbox that failed.", sum(each.failures for each in told)),
    ):
        yield CounterMetricFamily(name, doc, value=value)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def _gauges(name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=[label])
    for each, value in values.items():
        family.add_metric([each], value)
    return family
