"""Names, types and labels of the metrics."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse

import denyut
from denyut.monitoring.metrics import EVENTS, depth_metric, metrics_of, up_metric
from denyut.monitoring.partition import Partition
from denyut.monitoring.scrape import Scrape
from denyut.monitoring.workers import Worker
from denyut.states import TERMINAL
from denyut.tasks.outbox.report import Told
from denyut.tasks.saving.backlog import Backlog

SECOND = 1_000_000
NOW = 1_700_000_000 * SECOND
PACKAGE = Path(denyut.__file__).parent


def partition(**values) -> Partition:
    empty = {"now_us": NOW, "counters": {}, "leases": {}, "first_due": None, "first_queued": None}
    return Partition(**empty | dict.fromkeys(("scheduled", "queued", "held", "done"), 0) | values)


def found(*partitions: Partition, **values) -> Scrape:
    empty = {"started": [], "workers": [], "shards": [({}, 0)]}
    return Scrape(partitions=list(partitions) or [partition()], **empty | values)


class Exposition:
    """The metrics of a scrape as Prometheus would read them."""

    def __init__(self, *partitions: Partition, **values) -> None:
        families = [up_metric(up=True), *metrics_of(found(*partitions, **values)), depth_metric({"q": 3})]

        class Once:
            def collect(self):
                return families

        registry = CollectorRegistry()
        registry.register(Once())
        self.text = generate_latest(registry).decode()
        self.openmetrics = generate_openmetrics(registry).decode()
        self.samples = {
            (sample.name, *sorted(sample.labels.values())): sample.value
            for family in parse(self.text)
            for sample in family.samples
        }

    def __getitem__(self, key):
        return self.samples[key if isinstance(key, tuple) else (key,)]


def test_events_of_all_partitions_are_told_by_event_and_task():
    told = Exposition(partition(counters={"claimed:t": 2, "dead:t": 1}), partition(counters={"claimed:t": 3}))
    assert told["denyut_jobs_total", "claimed", "t"] == 5
    assert told["denyut_jobs_total", "dead", "t"] == 1


def test_bookkeeping_among_the_counters_is_not_told_as_an_event():
    told = Exposition(partition(counters={"recovery_us_sum": 5, "passed_us:q": NOW, "newfangled:t": 1}))
    assert not [key for key in told.samples if key[0] == "denyut_jobs_total"]


def test_dead_letters_are_told_by_budget_and_task_now_and_ever():
    counters = {"dead_now:failures:t": 2, "dead_now:crashes:a:b": 1, "buried:failures:t": 5}
    told = Exposition(partition(counters=counters), partition(counters={"dead_now:failures:t": -1}))
    assert told["denyut_dead_letters", "failures", "t"] == 1
    assert told["denyut_dead_letters", "a:b", "crashes"] == 1
    assert told["denyut_buried_total", "failures", "t"] == 5
    assert not [key for key in told.samples if key[0] == "denyut_jobs_total"]


def test_every_event_that_a_script_counts_is_told():
    text = "".join(path.read_text() for path in PACKAGE.rglob("*.lua"))
    counted = set(re.findall(r"\bcount\('(\w+)'", text)) | {state.lower() for state in TERMINAL}
    counted |= {what.lower() for what in re.findall(r"refuse\('(\w+)'", text)}
    # What blame() returns is counted as it is, but for a judgement that is still to come.
    blame = re.search(r"^-- Returns (.*):", (PACKAGE / "lua" / "blame.lua").read_text(), re.MULTILINE)
    counted |= set(re.findall(r"'(\w+)'", blame.group(1))) - {"judge"}
    assert counted == EVENTS


def test_recoveries_are_a_histogram_in_seconds():
    counters = {f"recovery_us_bucket:{le * SECOND}": n for le, n in [(2, 1), (4, 3), (6, 3), (60, 4)]}
    counters |= {"recovery_us_count": 5, "recovery_us_sum": 90_500_000}
    told = Exposition(partition(counters=counters))
    assert told["denyut_recovery_seconds_bucket", "1.0"] == 0
    assert told["denyut_recovery_seconds_bucket", "4.0"] == 3
    assert told["denyut_recovery_seconds_bucket", "+Inf"] == 5
    assert (told["denyut_recovery_seconds_count"], told["denyut_recovery_seconds_sum"]) == (5, 90.5)


def test_the_bounds_of_the_histogram_are_those_of_the_script():
    script = (PACKAGE / "lua" / "recovered.lua").read_text()
    bounds = [int(n) // SECOND for n in re.search(r"BUCKETS = {([^}]*)}", script)[1].split(",")]
    told = Exposition().samples
    assert [f"{bound:.1f}" for bound in bounds] + ["+Inf"] == [
        key[1] for key in told if key[0] == "denyut_recovery_seconds_bucket"
    ]


def test_lateness_is_a_histogram_in_the_bounds_of_the_script():
    script = (PACKAGE / "tasks" / "lua" / "due.lua").read_text()
    bounds = [int(n) for n in re.search(r"BUCKETS = {([^}]*)}", script)[1].split(",")]
    counters = {f"late_us_bucket:{bound}": 1 for bound in bounds}
    told = Exposition(partition(counters={**counters, "late_us_bucket:inf": 2, "late_us_sum": 7_500_000}))
    found = {
        key[1]: n for key, n in told.samples.items() if key[0] == "denyut_schedule_lateness_seconds_bucket"
    }
    assert found == {str(bound / SECOND): i for i, bound in enumerate(bounds, 1)} | {"+Inf": len(bounds) + 2}
    assert told["denyut_schedule_lateness_seconds_sum",] == 7.5


def test_the_sizes_of_the_indexes_are_added_up():
    one = partition(leases={"a": NOW + 1, "b": NOW + 1}, queued=3, scheduled=4, held=1)
    told = Exposition(one, one)
    sizes = {state: told["denyut_jobs_now", state] for state in ("running", "queued", "scheduled", "held")}
    assert sizes == {"running": 4, "queued": 6, "scheduled": 8, "held": 2}


def test_the_oldest_of_each_kind_is_told_in_seconds():
    first = partition(first_queued=NOW - 9 * SECOND, leases={"a": NOW - 4 * SECOND, "b": NOW + SECOND})
    second = partition(first_queued=NOW - 7 * SECOND, first_due=NOW - 2 * SECOND)
    told = Exposition(first, second, started=[NOW - 30 * SECOND, NOW - 5 * SECOND])
    ages = {s: told["denyut_oldest_age_seconds", s] for s in ("running", "queued", "scheduled", "lapsed")}
    assert ages == {"running": 30, "queued": 9, "scheduled": 2, "lapsed": 4}
    assert told["denyut_leases_lapsed"] == 1


def test_what_is_due_later_is_not_old():
    told = Exposition(partition(first_due=NOW + 50 * SECOND, first_queued=NOW + SECOND))
    assert told["denyut_oldest_age_seconds", "scheduled"] == 0
    assert told["denyut_oldest_age_seconds", "queued"] == 0
    assert told["denyut_oldest_age_seconds", "running"] == 0


@pytest.mark.parametrize(("lags", "late"), [([], 0), ([-1.9, -0.2], 0), ([0.1, 2.5], 2.5)])
def test_workers_are_counted_and_the_latest_is_told(lags, late):
    told = Exposition(workers=[Worker(owner="w", name="w", running=0, late_s=lag) for lag in lags])
    assert (told["denyut_workers"], told["denyut_beat_lag_seconds"]) == (len(lags), late)


def test_accepted_jobs_that_are_nowhere_are_told():
    counters = {"enqueued:t": 7, "adopted:t": 1, "completed:t": 2, "unpublished:t": 1}
    told = Exposition(partition(counters=counters, queued=1, scheduled=1, leases={"a": NOW}))
    assert told["denyut_jobs_missing"] == 2


def test_locks_are_counted():
    told = Exposition(partition(locks=2, counters={"lock_taken": 7, "lock_lapsed": 1}), partition(locks=1))
    assert told["denyut_locks_held"] == 3
    assert told["denyut_locks_taken_total"] == 7
    assert told["denyut_locks_lapsed_total"] == 1
    assert Exposition()["denyut_locks_taken_total"] == 0, "a rate begins at zero"


def test_a_job_store_is_told_if_there_is_one():
    told = {"jobs": 3, "oldest_s": 4.5, "refused": {"j": "why"}, "written": 9, "writes": 2, "failures": 1}
    metrics = Exposition(store=Backlog(**told, error="gone", error_age_s=1.0))
    assert metrics["denyut_store_up"] == 0
    assert metrics["denyut_store_backlog"] == 3
    assert metrics["denyut_store_backlog_age_seconds"] == 4.5
    assert metrics["denyut_store_refused"] == 1
    assert metrics["denyut_store_written_total"] == 9
    assert metrics["denyut_store_writes_total"] == 2
    assert metrics["denyut_store_failures_total"] == 1
    assert ("denyut_store_up",) not in Exposition().samples


def told(**values) -> Told:
    empty = dict.fromkeys(("waiting", "oldest_s", "aside", "sent", "refused", "failures"), 0)
    return Told(**{**empty, "shown": "x", "counted_s": 2.0, "error": "", "error_s": None, **values})


def test_outboxes_are_told_together_if_there_are_any():
    one = told(waiting=3, oldest_s=4.5, aside=1, sent=9, refused=2)
    metrics = Exposition(outboxes=[one, told(waiting=1, oldest_s=1.0, counted_s=7.0, failures=4)])
    assert metrics["denyut_outbox_up"] == 1
    assert metrics["denyut_outbox_backlog"] == 4
    assert metrics["denyut_outbox_backlog_age_seconds"] == 4.5
    assert metrics["denyut_outbox_aside"] == 1
    assert metrics["denyut_outbox_look_age_seconds"] == 7.0
    assert metrics["denyut_outbox_sent_total"] == 9
    assert metrics["denyut_outbox_refused_total"] == 2
    assert metrics["denyut_outbox_failures_total"] == 4
    page = (PACKAGE.parent / "docs" / "monitoring.md").read_text()
    for name in {name for name, *_ in metrics.samples if name.startswith("denyut_outbox_")}:
        assert f"`{name}`" in page, name
    assert Exposition(outboxes=[told(error="gone")])["denyut_outbox_up"] == 0
    unknown = Exposition(outboxes=[told(counted_s=None)]).samples
    assert ("denyut_outbox_look_age_seconds",) not in unknown, "nobody has ever counted"
    assert ("denyut_outbox_up",) not in Exposition().samples


def test_medians_are_told_for_each_shard():
    counters = {"batches": 2, "accepted": 30, "duplicates": 4, "conflicts": 1}
    told = Exposition(shards=[(counters, 3), ({}, 0)])
    assert told["denyut_median_batches_total", "0"] == 2
    assert told["denyut_median_streams", "0"] == 3
    events = {o: told["denyut_median_events_total", "0", o] for o in ("accepted", "duplicate", "conflict")}
    assert events == {"accepted": 30, "duplicate": 4, "conflict": 1}
    assert told["denyut_median_events_total", "1", "accepted"] == 0, "a rate begins at zero"


def test_the_text_is_valid_also_as_openmetrics_and_names_follow_types():
    told = Exposition(partition(counters={"claimed:t": 1}))
    names = set()
    for family in parse_openmetrics(told.openmetrics):
        assert family.name not in names, "a family's name is used once"
        names.add(family.name)
        assert family.name.startswith("denyut_")
        assert family.documentation
        for sample in family.samples:
            assert (family.type == "counter") == sample.name.endswith("_total")
            assert set(sample.labels) <= {
                "event",
                "task",
                "state",
                "queue",
                "shard",
                "outcome",
                "le",
                "budget",
            }


def test_every_metric_is_explained_in_the_docs():
    page = (PACKAGE.parent / "docs" / "monitoring.md").read_text()
    for family in parse(Exposition(partition(counters={"claimed:t": 1})).text):
        name = family.name + ("_total" if family.type == "counter" else "")
        assert f"`{name}" in page, name
