"""The body of a chord is sent also if the process dies that had claimed it."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
from celery import _state, chord
from unit.tasks.dying import DiedError, Life, living

from denyut.tasks.chord_part import is_chord_waiting

GROUP = "g"


@pytest.fixture
def ran(bench):
    before = _state._tls.current_app
    bench.app.set_current()
    found = []

    @bench.task(name="t.part")
    def part(n):
        return n

    @bench.task(name="t.body")
    def body(parts):
        found.append(parts)

    yield found
    _state._tls.current_app = before


@contextmanager
def dying_before_the_body(backend):
    """The process dies when it has joined the chord, and is about to send the body."""
    real, life = backend._chord_publish_claim_expires, Life()

    def die(*args):
        life.dead = True
        raise DiedError

    backend._chord_publish_claim_expires = die
    with living(life):
        yield
    backend._chord_publish_claim_expires = real


def claim_key(bench):
    [key] = bench.pulse.store.client.scan_iter("*.c")
    return key


def die_with_the_claim(bench, body):
    """Return the message of the last member, whose process died when it was about to send the body."""
    part = bench.app.tasks["t.part"]
    chord([part.s(1), part.s(2)], body).apply_async()
    first, last = bench.messages()
    bench.run(first)
    with dying_before_the_body(part.backend), pytest.raises(DiedError):
        bench.run(last)
    bench.crash(last.headers["id"])
    return last


def test_a_replay_sends_the_body_though_the_dead_process_has_the_claim(bench, ran):
    last = die_with_the_claim(bench, bench.app.tasks["t.body"].s())
    bench.run(last)
    bench.drain()
    assert ran == [[1, 2]]
    assert bench.record(last.headers["id"]).settled
    bench.crash(last.headers["id"])
    bench.run(last)
    bench.drain()
    assert ran == [[1, 2]]


def test_a_member_stays_unsettled_until_a_body_that_is_no_job_was_sent(bench, ran):
    last = die_with_the_claim(bench, bench.app.tasks["celery.accumulate"].s())
    bench.run(last)  # replayed while the dead process still has the claim: the body cannot be told apart
    assert bench.messages() == []
    assert not bench.record(last.headers["id"]).settled
    bench.pulse.store.client.delete(claim_key(bench))  # it has lapsed
    bench.crash(last.headers["id"])
    bench.run(last)
    assert [m.headers["task"] for m in bench.messages()] == ["celery.accumulate"]
    assert bench.record(last.headers["id"]).settled


@pytest.mark.parametrize(
    ("keys", "waits"),
    [
        ({".c": "token", ".s": "2"}, True),
        ({".s": "2"}, True),
        ({".s": "3"}, False),
        ({".s": "1", ".t": "1"}, True),
        ({".c": "done"}, False),
        ({".c": "done", ".s": "2"}, False),
        ({}, False),
    ],
)
def test_a_chord_waits_if_all_its_parts_are_there_and_its_body_was_not_sent(bench, ran, keys, waits):
    backend = bench.app.tasks["t.part"].backend
    backend.client.zadd(backend.get_key_for_group(GROUP, ".j"), {"one": 0, "two": 1})
    for end, value in keys.items():
        backend.client.set(backend.get_key_for_group(GROUP, end), value)
    assert is_chord_waiting(backend, {"group": GROUP, "chord": {"task": "t.body"}}) == waits


def test_a_task_outside_a_chord_and_a_backend_without_claims_wait_for_nothing(bench, ran):
    backend = bench.app.tasks["t.part"].backend
    assert not is_chord_waiting(backend, {"group": GROUP, "chord": None})
    assert not is_chord_waiting(backend, {"chord": {"task": "t.body"}})
    assert not is_chord_waiting(object(), {"group": GROUP, "chord": {"task": "t.body"}})
