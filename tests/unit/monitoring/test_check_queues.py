"""Queues in which something waits, and nobody comes."""

from __future__ import annotations

import pytest
from support import free_port

from denyut.monitoring.check import Level
from denyut.monitoring.check_queues import check_queues


@pytest.fixture
def desk(make_desk):
    return make_desk(task_default_queue="mine")


def look(desk):
    return check_queues(desk.pulse, desk.client)


def test_where_nothing_waits_nobody_needs_to_come(desk):
    found = look(desk)
    assert (found.level, found.message) == (Level.OK, "nothing waits in 17 queue(s)")


def test_a_queue_with_messages_and_without_a_worker_fails(desk):
    desk.pulse.app.send_task("t", queue="mine")
    found = look(desk)
    assert (found.level, found.message) == (Level.FAIL, "nobody consumes mine (1 waiting)")
    assert found.hint == "start: celery -A APP worker -Q mine"


def test_a_median_queue_asks_for_a_median_worker(desk):
    desk.pulse.median.record("s", 1.0, event_id="a")
    found = look(desk)
    assert found.level == Level.FAIL
    assert found.hint == "start: celery -A APP denyut worker-median"


def test_a_queued_job_whose_queue_the_app_does_not_know_is_found_through_its_record(desk):
    desk.queued("j", 5, queue="elsewhere")
    found = look(desk)
    assert (found.level, found.message) == (Level.FAIL, "nobody consumes elsewhere (1 waiting)")


def test_a_worker_that_does_not_answer_makes_it_a_warning(desk):
    desk.worker("busy@host")
    desk.queued("j", 5, queue="mine")
    found = look(desk)
    assert found.level == Level.WARN
    assert found.hint.startswith("busy@host did not answer")


def test_a_broker_that_is_away_fails(make_desk, valkey_server):
    away = make_desk(broker_url=f"redis://127.0.0.1:{free_port()}/0", denyut_redis_url=valkey_server.url)
    found = look(away)
    assert found.level == Level.FAIL
    assert found.message.startswith("the broker cannot be asked")


def test_a_queue_with_a_worker_is_well(worker):
    node = worker("apps.jobs", concurrency=1)
    pulse = node.app.denyut
    pulse.store.client.hset(pulse.keys.job("j").record, mapping={"state": "QUEUED", "queue": "celery"})
    pulse.store.client.zadd(pulse.keys.partition(pulse.keys.partition_of("j")).queued, {"j": 5})
    found = check_queues(pulse, pulse.store.client)
    assert (found.level, found.message) == (
        Level.OK,
        "somebody consumes whatever has something waiting: celery (1)",
    )
