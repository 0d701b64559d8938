"""Which workers beat, and how late."""

from __future__ import annotations

import pytest

from denyut.monitoring.workers import live_workers


@pytest.fixture
def desk(make_desk):
    return make_desk(denyut_lease_ttl=6.0)


def test_without_workers_there_are_none(desk):
    assert live_workers(desk.pulse, desk.client) == []


def test_a_worker_is_late_by_its_last_beat_or_by_the_one_that_did_not_come(desk):
    desk.worker("in time", beat=1.0, running=3)
    desk.worker("was late", beat=0.0, lag_ms=1500)
    desk.worker("is silent", beat=5.0)
    silent, in_time, late = live_workers(desk.pulse, desk.client)
    assert (silent.name, in_time.name, late.name) == ("is silent", "in time", "was late")
    assert silent.late_s == pytest.approx(3.0, abs=0.5)
    assert late.late_s == pytest.approx(1.5)
    assert in_time.late_s <= 0
    assert (in_time.running, in_time.owner) == (3, "in time|ab")


def test_a_worker_whose_time_is_over_is_not_alive(desk):
    desk.worker("gone", beat=60)
    desk.client.delete(desk.pulse.keys.worker("gone|ab"))
    assert live_workers(desk.pulse, desk.client) == []
