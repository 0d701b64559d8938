"""The heartbeat renews the locks of running jobs, and releases those of dead ones."""

from __future__ import annotations

from time import monotonic

import pytest
from unit.signals.conftest import FENCE

from denyut.tasks.locks.holds import JobHold
from denyut.tasks.locks.steps import Held, acquire
from denyut.tasks.slots import UNLOCKED, SlotState


class Holding:
    """Locks that hand-made jobs hold."""

    def __init__(self, stage):
        self.stage, self.client, self.keys = stage, stage.client, stage.keys

    def take(self, name: str, index: int = 0, fence: int = FENCE) -> JobHold:
        hold = JobHold(self.stage.block, self.stage.block.slot(index), fence)
        options = {"ttl": 6.0, "baton": "", "waits": 0.0, "job": "j", "lease_ttl": 6.0}
        taken = acquire(self.client, self.keys, name=name, token=f"t{name}", **options)
        assert isinstance(taken, int)
        hold.begin(Held(name, f"t{name}", taken, 6.0, monotonic() - 3, 1, "j"))
        return hold

    def of(self, name: str) -> dict[str, str]:
        raw = self.client.hgetall(self.keys.lock(name).lock)
        return {key.decode(): value.decode() for key, value in raw.items()}

    def age(self, name: str) -> None:
        self.client.hset(self.keys.lock(name).lock, "until", 1)

    def renewed(self, name: str) -> bool:
        return int(self.of(name)["until"]) > 1


@pytest.fixture
def holding(stage):
    stage.run(0, "j")
    return Holding(stage)


def test_a_beat_renews_the_locks_of_its_jobs_in_the_same_round_trip(holding, stage, monkeypatch):
    stage.run(1, "k", fence=FENCE + 1)
    holds = [holding.take(f"n{i}") for i in range(5)] + [holding.take("m", 1, FENCE + 1)]
    for hold in holds:
        holding.age(hold.held.name)
    quick, trips = stage.client.pipeline, []
    monkeypatch.setattr(stage.client, "pipeline", lambda **kw: trips.append(1) or quick(**kw))
    stage.beat()  # the scripts are loaded by the first
    trips.clear()
    stage.beat()
    assert len(trips) == 1
    for hold in holds:
        assert holding.renewed(hold.held.name)
        assert hold.age < 1
        assert not hold.lost


def test_a_job_without_locks_costs_a_beat_no_call(holding, stage):
    assert stage.beater.locks.calls(stage.beater.jobs()) == []


def test_a_lock_that_was_taken_over_is_told_to_its_job_once(holding, stage, caplog):
    lost, kept = holding.take("a"), holding.take("b")
    holding.client.hset(holding.keys.lock("a").lock, mapping={"token": "x", "fence": lost.held.fence + 1})
    for _ in range(2):
        stage.beat()
    assert (lost.lost, kept.lost) == (True, False)
    assert stage.block.slot(0).flags == UNLOCKED
    assert holding.of("a")["token"] == "x"
    assert caplog.text.count("lock 'a'") == 1


def test_a_lock_that_was_released_meanwhile_is_not_called_lost(holding, stage, caplog):
    hold = holding.take("a")
    calls = stage.beater.locks.calls(stage.beater.jobs())
    at = holding.keys.lock("a")
    holding.client.hdel(at.lock, "token")
    holding.client.zadd(at.freed, {"ta": 9e15})
    replies = [call[0](holding.client, call[1], call[2]) for call in calls]
    stage.beater.locks.answer(replies, monotonic())
    assert not hold.lost
    assert "lost" not in caplog.text


def test_a_job_that_has_lost_its_lease_keeps_no_lock(holding, stage):
    holding.take("a")
    stage.set_record("j", fence=FENCE + 1)
    stage.client.delete(stage.keys.job("j").lease)
    stage.beat()
    holding.age("a")
    stage.beat()
    assert not holding.renewed("a")


def test_a_lock_of_an_ended_job_is_not_renewed(holding, stage):
    holding.take("a")
    stage.block.slot(0).end()
    holding.age("a")
    stage.beat()
    assert not holding.renewed("a")


def test_the_locks_of_a_dead_process_can_be_released(holding, stage):
    holding.take("a")
    job = stage.block.read(0)
    assert isinstance(job, SlotState)
    [(script, keys, args)] = stage.beater.locks.left_by(job)
    assert script(stage.client, keys, args) == 1
    assert "token" not in holding.of("a")


def test_a_lock_that_redis_cannot_renew_costs_no_lease(holding, stage, caplog):
    holding.take("a")
    stage.client.set(holding.keys.lock("a").lock, "x")
    assert stage.beat().lost == []
    assert "Redis refused to renew" in caplog.text
    assert stage.ttl("j") > 5000
