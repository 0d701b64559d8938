"""A job that is replaced by a chain or a chord ends as that ends."""

from __future__ import annotations

import pytest
from celery import _state, chain, chord
from support import wait_until

from denyut.errors import LeaseLost
from denyut.states import State
from denyut.tasks.recovery import Recovery
from denyut.tasks.replace import announce_replacement, end_replaced
from denyut.tasks.schedule import Schedule


@pytest.fixture
def canvases(bench):
    before = _state._tls.current_app
    bench.app.set_current()

    @bench.task(name="t.step")
    def step(n):
        return n

    @bench.task(name="t.fails")
    def fails():
        raise ValueError("as told")

    @bench.task(name="t.total")
    def total(parts):
        return sum(parts)

    yield {
        "chord": lambda: chord([step.si(1), step.si(2)], total.s()),
        "chain": lambda: chain(step.si(1), step.si(3)),
        "late chord": lambda: chord([step.si(1), step.si(2)], total.s().set(countdown=0.05)),
        "fails": lambda: chain(step.si(1), fails.si(), step.si(2)),
        "chord fails": lambda: chord([step.si(1), fails.si()], total.s()),
    }
    _state._tls.current_app = before


def replaced_by(bench, canvas, *, early=False):
    @bench.task(name="t.outer", bind=True)
    def outer(self):
        try:
            self.replace(canvas())
        finally:
            if early:  # all that was sent runs before this attempt has given way
                bench.drain()

    return outer.delay()


def move_on(bench):
    Recovery(bench.pulse).step()
    Schedule(bench.pulse).look()
    bench.drain()


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize(("how", "value"), [("chord", 3), ("chain", 3), ("late chord", 3)])
def test_the_job_completes_with_the_result_of_its_replacement(bench, canvases, how, value, early):
    result = replaced_by(bench, canvases[how], early=early)
    bench.drain()
    wait_until(
        lambda: move_on(bench) or bench.record(result.id).settled,
        what="the replacement to be published and to run",
    )
    assert result.get(timeout=5) == value
    assert bench.record(result.id).state == State.COMPLETED


@pytest.mark.parametrize("how", ["fails", "chord fails"])
def test_the_job_fails_when_its_replacement_fails_before_the_last_step(bench, canvases, how):
    result = replaced_by(bench, canvases[how])
    bench.drain()
    record = bench.record(result.id)
    assert (record.state, record.settled) == (State.FAILED, True)
    with pytest.raises(Exception, match="as told"):
        result.get(timeout=5)


def test_an_attempt_that_lost_its_job_cannot_replace_it(bench, canvases):
    result = bench.app.tasks["t.step"].delay(1)
    with pytest.raises(LeaseLost):
        announce_replacement(bench.pulse, result.id, 1)


def test_only_a_job_that_waits_for_its_replacement_is_ended_by_its_failure(bench, canvases):
    result = bench.app.tasks["t.step"].delay(1)
    assert not end_replaced(bench.pulse, result.id, ValueError())
    assert not end_replaced(bench.pulse, "nobody", ValueError())
    assert bench.record(result.id).state == State.QUEUED
