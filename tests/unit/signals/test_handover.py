from __future__ import annotations

import logging
from threading import Event, current_thread

import pytest
from support import wait_until

from denyut.signals.handover import Handover


@pytest.fixture
def jobs(stage):
    stage.begin(0, "a")
    stage.begin(1, "b")
    return stage.beater.jobs()


def test_a_job_is_recovered_before_the_pool_is_told(jobs):
    told = []
    handover = Handover(lambda job: told.append(job.job_id), lambda: told.append("pool"))
    handover.start()
    for job in jobs:
        handover.give(job)
    handover.stop()
    assert told == ["a", "pool", "b", "pool"]


def test_giving_never_waits_for_a_slow_recovery(jobs):
    go, names = Event(), []

    def recover(_):
        names.append(current_thread().name)
        go.wait(30)

    handover = Handover(recover, lambda: None)
    handover.start()
    for job in jobs:
        handover.give(job)
    wait_until(lambda: names == ["denyut-handover"], what="the first recovery")
    go.set()
    handover.stop()
    assert len(names) == 2


def test_a_recovery_that_fails_is_logged_and_the_next_goes_on(jobs, caplog):
    done = []

    def recover(job):
        if job.job_id == "a":
            raise ConnectionError("no Redis")
        done.append(job.job_id)

    handover = Handover(recover, lambda: done.append("pool"))
    handover.start()
    with caplog.at_level(logging.ERROR):
        for job in jobs:
            handover.give(job)
        handover.stop()
    assert done == ["pool", "b", "pool"]
    assert "job a: could not be handed over" in caplog.text
    assert "no Redis" in caplog.text


def test_a_pool_that_cannot_be_told_does_not_end_the_handover(jobs, caplog):
    done = []

    def then():
        raise RuntimeError("no hub")

    handover = Handover(lambda job: done.append(job.job_id), then)
    handover.start()
    for job in jobs:
        handover.give(job)
    handover.stop()
    assert done == ["a", "b"]
    assert "no hub" in caplog.text


def test_starting_and_stopping_twice_does_no_harm():
    handover = Handover(lambda _: None, lambda: None)
    handover.stop()
    handover.start()
    handover.start()
    handover.stop()
    handover.stop()
