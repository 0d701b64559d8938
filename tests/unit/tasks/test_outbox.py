"""The index of the jobs that the job store has not seen, as every script keeps it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import denyut
from denyut.keys import Keys
from denyut.scripts import Script
from denyut.tasks.cancellation import cancel_waiting

PACKAGE = Path(denyut.__file__).parent
WRITES = re.compile(r"redis\.call\('(?:HSET|HSETNX|HDEL|HINCRBY)', record")
#: Counts of refusals, and what is known of the store itself.
COUNTS = re.compile(r"'n:' \.\. kind|'last:' \.\. kind|'copied'")
SCRIPTS = [path for path in sorted(PACKAGE.rglob("*/lua/*.lua")) if path.parent.parent != PACKAGE]


def body_of(path):
    """The script without the lines that are no change."""
    return "\n".join(line for line in path.read_text().splitlines() if not COUNTS.search(line))


WRITERS = [path for path in SCRIPTS if WRITES.search(body_of(path))]


@pytest.fixture
def stored(bench):
    """A bench whose scripts mark what a job store has not seen."""
    settings = bench.pulse.settings
    bench.pulse.keys = Keys(settings.prefix, settings.partitions, stored=True)
    return bench


def task_of(bench):
    @bench.task(name="t.work")
    def work(a=None):
        return a

    return work


def marked(bench, job_id):
    keys = bench.pulse.keys
    return bench.pulse.store.client.zscore(keys.partition(keys.partition_of(job_id)).outbox, job_id)


def ttl(bench, job_id):
    return bench.pulse.store.client.ttl(bench.pulse.keys.job(job_id).record)


@pytest.mark.parametrize("path", WRITERS, ids=lambda path: path.stem)
def test_a_script_that_writes_a_record_makes_a_version_of_it_and_marks_it(path):
    body = body_of(path)
    fresh = "next_version(" in body
    assert re.search(r"\b(changed|cancel_now|new_version)\(", body) or (fresh and "mark(" in body)
    assert not fresh or "mark(" in body, "a version that is written along is marked beside it"


def test_there_are_writers_to_look_at():
    assert {"claim", "finish", "reserve", "settle", "recover"} <= {path.stem for path in WRITERS}


def test_no_script_counts_versions_by_itself():
    for path in PACKAGE.rglob("lua/*.lua"):
        assert "'version', 1" not in path.read_text(), path.name


def test_without_a_store_nothing_is_marked(bench):
    task = task_of(bench)
    job = task.delay()
    bench.drain()
    assert marked(bench, job.id) is None
    assert 0 < ttl(bench, job.id) <= bench.pulse.settings.retention


def test_with_a_store_a_job_is_marked_from_its_enqueue_and_kept_until_the_store_has_it(stored):
    task = task_of(stored)
    job = task.delay()
    first = marked(stored, job.id)
    assert first == stored.record(job.id).queued_at
    stored.drain()
    assert marked(stored, job.id) == first, "the time of the first change that it has not seen"
    assert ttl(stored, job.id) == -1
    record = stored.pulse.store.client.hgetall(stored.pulse.keys.job(job.id).record)
    kept = int(record[b"forget_at"]) - int(record[b"finished_at"])
    assert kept == stored.pulse.settings.retention * 1_000_000


def test_a_key_of_the_caller_is_not_taken_for_the_outbox(stored):
    # Both have more KEYS than the fifteen: the Lists of the broker, and the result of Celery.
    task = task_of(stored)
    job = task.delay(3)
    stored.drain()
    assert job.get(timeout=5) == 3


def test_versions_grow_over_a_record_of_an_older_time(stored, valkey):
    task = task_of(stored)
    job = task.apply_async(countdown=60)
    record = stored.pulse.keys.job(job.id).record
    newest = stored.record(job.id).version
    valkey.hset(record, "version", 7)  # an older state of Redis is back
    assert cancel_waiting(stored.pulse, job.id, "why")
    assert stored.record(job.id).version > newest


def test_the_scripts_of_the_package_have_one_way_to_make_a_version():
    assert "local function next_version" in Script("denyut.tasks", "settle").source
    assert "local function new_version" in Script("denyut.signals", "beat").source
