"""A duplicate enqueue is noted in the story of the job that answered it."""

from __future__ import annotations

import pytest

from denyut.errors import IdempotencyConflict
from denyut.tasks.note import NOTE


def story(bench, job_id):
    raw = bench.pulse.store.client.xrange(bench.pulse.keys.job(job_id).events)
    return [{k.decode(): v.decode() for k, v in fields.items()} for _, fields in raw]


@pytest.fixture
def task(bench):
    @bench.task(name="t.keyed")
    def keyed(x): ...

    return keyed


def test_who_enqueued_the_same_again_is_in_the_story_of_the_job(bench, task):
    first = task.apply_async((1,), idempotency_key="k")
    assert task.apply_async((1,), idempotency_key="k").id == first.id
    enqueued, duplicate = story(bench, first.id)
    assert (enqueued["type"], duplicate["type"], duplicate["data"]) == ("enqueued", "duplicate", "key k")
    assert "@" in enqueued["by"]
    assert "@" in duplicate["by"]


def test_who_used_the_key_with_other_arguments_is_in_it_too(bench, task):
    first = task.apply_async((1,), idempotency_key="k")
    with pytest.raises(IdempotencyConflict):
        task.apply_async((2,), idempotency_key="k")
    assert [event["type"] for event in story(bench, first.id)] == ["enqueued", "conflict"]


def test_a_storm_of_duplicates_is_counted_and_does_not_flood_the_story(bench, task, valkey):
    first = task.apply_async((1,), idempotency_key="k")
    for _ in range(20):
        task.apply_async((1,), idempotency_key="k")
    assert len(story(bench, first.id)) == 6
    assert valkey.hget(bench.pulse.keys.job(first.id).record, "n:duplicate") == b"20"
    assert valkey.hexists(bench.pulse.keys.job(first.id).record, "last:duplicate")


def test_a_job_that_is_gone_is_not_made_again_by_a_note(bench):
    assert NOTE(bench.pulse.store.client, bench.pulse.keys.script("gone"), ["duplicate", "", ""]) == 0
    assert bench.record("gone") is None
