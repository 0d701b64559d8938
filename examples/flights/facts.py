"""Asking Denyut what happened: medians, what was suppressed, crashes and how long each recovery took."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families
from truth import Summary

if TYPE_CHECKING:
    from collections.abc import Iterable

    from denyut import Denyut

# Why a delivery was not run: another attempt runs, the job had ended, a newer message is on the way.
_SUPPRESSED = ("busy", "done", "stale")


def summaries(pulse: Denyut) -> dict[str, Summary]:
    """Return what Denyut says of each stream."""
    found = {}
    for stream in pulse.median.streams():
        median, p95 = pulse.median.read(stream), pulse.median.read(stream, quantile=0.95)
        assert median.value is not None
        assert p95.value is not None
        found[stream] = Summary(median.count, median.value, p95.value)
    return found


def suppressed_events(pulse: Denyut) -> int:
    """Return how many events came again and changed nothing."""
    return sum(pulse.median.read(stream).duplicates for stream in pulse.median.streams())


def conflicting_events(pulse: Denyut) -> int:
    """Return how many events came again with another value: there should be none."""
    return sum(pulse.median.read(stream).conflicts for stream in pulse.median.streams())


def suppressed_deliveries(pulse: Denyut, task: str) -> int:
    """Return how many deliveries of ``task`` stepped aside at the claim."""
    pipe = pulse.store.client.pipeline(transaction=False)
    for partition in pulse.keys.all_partitions():
        pipe.hmget(partition.counters, [f"{why}:{task}" for why in _SUPPRESSED])
    return sum(int(count or 0) for counts in pipe.execute() for count in counts)


def recoveries(pulse: Denyut, job_ids: Iterable[str]) -> list[float]:
    """Return the seconds from the last sign of life to the next attempt, of each crash of these jobs."""
    pipe = pulse.store.client.pipeline(transaction=False)
    for job_id in job_ids:
        pipe.xrange(pulse.keys.job(job_id).events)
    entries = [fields for stream in pipe.execute() for _, fields in stream]
    return sorted(int(entry[b"data"]) / 1e6 for entry in entries if entry[b"type"] == b"recovered")


def exported_events(metrics_url: str) -> int:
    """Return how many accepted events the exporter has counted. Raises OSError if it does not answer."""
    with urlopen(metrics_url, timeout=10.0) as response:
        families = list(text_string_to_metric_families(response.read().decode()))
    samples = [sample for family in families for sample in family.samples]
    accepted = [
        s for s in samples if s.name == "denyut_median_events_total" and s.labels["outcome"] == "accepted"
    ]
    return int(sum(sample.value for sample in accepted))
