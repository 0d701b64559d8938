"""A continuation that was sent before a crash is not sent again by the replay."""

from __future__ import annotations

from collections import Counter

import pytest
from celery import _state, canvas, chain, chord, group
from redis.exceptions import ConnectionError as RedisConnectionError
from support import wait_until

from denyut.tasks import attempt
from denyut.tasks.same_ids import install_same_ids


@pytest.fixture
def effects():
    return Counter()


@pytest.fixture
def current(bench):
    """What a worker does: signatures inside signatures belong to the current app."""
    before = _state._tls.current_app
    bench.app.set_current()
    yield
    _state._tls.current_app = before


@pytest.fixture
def tasks(bench, effects, current):
    @bench.task(name="t.first")
    def first(fail=False):
        effects["first"] += 1
        if fail:
            raise ValueError("as told")
        return 1

    @bench.task(name="t.effect")
    def effect(name):
        effects[name] += 1
        return name

    class Tasks:
        pass

    Tasks.first, Tasks.effect = first, effect
    return Tasks


def continuations(effect):
    app = effect.app
    a, b, c = (effect.si(name) for name in "abc")
    return {
        "one link": {"link": a},
        "two links": {"link": [a, b]},
        "a group": {"link": group(a, b, app=app)},
        "a chain": {"link": chain(a, b, app=app)},
        "a chord": {"link": chord([a, b], c, app=app)},
        "a chain with a group": {"link": chain(a, group(b, c, app=app), app=app)},
    }


@pytest.mark.parametrize(
    "how", ["one link", "two links", "a group", "a chain", "a chord", "a chain with a group"]
)
def test_each_callback_takes_effect_once(bench, tasks, effects, monkeypatch, how):
    def away(*args, **kwargs):
        raise RedisConnectionError("the worker died before it settled")

    result = tasks.first.apply_async(**continuations(tasks.effect)[how])
    [message] = bench.messages()
    with monkeypatch.context() as patch:
        patch.setattr(attempt, "settle", away)
        bench.run(message)
    bench.crash(result.id)
    bench.run(message)  # replayed
    bench.drain()
    wait_until(lambda: not bench.drain() and bench.record(result.id).settled, what="the end")
    assert effects["first"] == 1
    assert {name: count for name, count in effects.items() if count != 1} == {}
    assert effects["a"] == 1


def test_outside_a_continuation_ids_are_random(bench, tasks):
    ids = {canvas.uuid() for _ in range(10)}
    assert len(ids) == 10


def test_installing_it_twice_changes_nothing():
    before = canvas.uuid
    install_same_ids()
    assert canvas.uuid is before
