"""A job whose task a worker does not know is left for one that does."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from denyut.signals.unknown import leave_unknown
from denyut.states import State
from denyut.store import Store


@pytest.fixture
def one(pulse):
    return pulse()


@pytest.fixture
def stage(one):
    discarded, acked = [], []
    consumer = SimpleNamespace(on_unknown_task=lambda *args: discarded.append(args), connection_errors=())
    leave_unknown(one, SimpleNamespace(consumer=consumer))

    def message(headers):
        return SimpleNamespace(headers=headers, ack_log_error=lambda *_: acked.append(headers["id"]))

    return SimpleNamespace(
        receive=consumer.on_unknown_task, message=message, discarded=discarded, acked=acked
    )


def state(one, job_id):
    return one.store.client.hget(one.keys.job(job_id).record, "state").decode()


def stamp(gen):
    return {"gen": gen, "marker": "1", "at": 1}


def test_it_waits_in_the_store_and_its_message_is_acknowledged(one, stage):
    result = one.app.send_task("t.newer")
    stage.receive(None, stage.message({"id": result.id, "task": "t.newer", "denyut": stamp(1)}), KeyError())
    assert state(one, result.id) == State.SCHEDULED
    assert stage.acked == [result.id]
    assert stage.discarded == []
    assert result.state == "PENDING", "its caller is not told of a failure"


def test_an_old_copy_changes_nothing(one, stage):
    result = one.app.send_task("t.newer")
    one.store.client.hset(one.keys.job(result.id).record, "gen", 5)
    stage.receive(None, stage.message({"id": result.id, "task": "t.newer", "denyut": stamp(1)}), KeyError())
    assert state(one, result.id) == State.QUEUED
    assert stage.acked == [result.id]


def test_a_message_of_a_client_without_denyut_goes_celerys_way(stage):
    stage.receive(None, stage.message({"id": "x", "task": "t.newer"}), KeyError())
    assert len(stage.discarded) == 1
    assert stage.acked == []


def test_when_redis_is_away_the_message_stays_with_the_broker(one, stage):
    one.__dict__["store"] = Store(lambda: "redis://127.0.0.1:1/0", timeout=0.2)
    stage.receive(None, stage.message({"id": "x", "task": "t.newer", "denyut": stamp(1)}), KeyError())
    assert stage.acked == []
    assert stage.discarded == []
