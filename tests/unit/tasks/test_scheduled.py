from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from celery.worker.control import Panel

from denyut.tasks.scheduled import install_scheduled, scheduled_jobs


@pytest.fixture
def add(bench):
    @bench.task(name="t.add")
    def add(x, y, z=0):
        return x + y + z

    return add


def queue(bench):
    return bench.app.conf.task_default_queue


def test_a_job_for_later_is_listed_as_celery_lists_one(bench, add):
    eta = datetime.now(UTC) + timedelta(hours=1)
    result = add.apply_async([1, 2], {"z": 3}, eta=eta)
    [entry] = scheduled_jobs(bench.pulse, {queue(bench)}, hostname="w@h")
    assert entry["eta"] == eta.isoformat()
    assert entry["priority"] == 6
    request = entry["request"]
    assert (request["id"], request["name"], request["type"]) == (result.id, "t.add", "t.add")
    assert (request["args"], request["kwargs"], request["hostname"]) == ([1, 2], {"z": 3}, "w@h")
    assert request["delivery_info"]["routing_key"] == queue(bench)


def test_the_next_come_first_and_other_queues_are_left_to_their_workers(bench, add):
    for seconds in (300, 100, 200):
        add.apply_async((seconds, 0), countdown=seconds)
    add.apply_async((1, 0), countdown=50, queue="another")
    listed = scheduled_jobs(bench.pulse, {queue(bench)}, hostname="w@h")
    assert [entry["request"]["args"][0] for entry in listed] == [100, 200, 300]


def test_a_message_that_cannot_be_read_does_not_hide_the_others(bench, add):
    bad = add.apply_async((1, 0), countdown=100)
    add.apply_async((2, 0), countdown=100)
    bench.pulse.store.client.hset(bench.pulse.keys.job(bad.id).record, "msg", "no message")
    [entry] = scheduled_jobs(bench.pulse, {queue(bench)}, hostname="w@h")
    assert entry["request"]["args"] == [2, 0]


def test_without_jobs_the_list_is_empty(bench):
    assert scheduled_jobs(bench.pulse, {queue(bench)}, hostname="w@h") == []


def test_inspect_lists_what_the_worker_holds_and_then_the_jobs_in_the_store(bench, add):
    install_scheduled()
    install_scheduled()
    add.apply_async((1, 0), countdown=100)
    consumer = SimpleNamespace(
        timer=SimpleNamespace(schedule=SimpleNamespace(queue=[])),
        task_consumer=SimpleNamespace(queues=[SimpleNamespace(name=queue(bench))]),
    )
    state = SimpleNamespace(app=bench.app, consumer=consumer, hostname="w@h")
    for name in ("scheduled", "dump_schedule"):
        [entry] = Panel.data[name](state)
        assert entry["request"]["args"] == [1, 0]
    other = SimpleNamespace(app=SimpleNamespace(), consumer=consumer, hostname="w@h")
    assert Panel.data["scheduled"](other) == []
