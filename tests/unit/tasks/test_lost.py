from __future__ import annotations

import pytest

from denyut.tasks import lost as module
from denyut.tasks.lost import LostMessages


@pytest.fixture
def bench(make_bench):
    return make_bench(denyut_partitions=1, denyut_queued_timeout=1.0)


@pytest.fixture
def noop(bench):
    @bench.task(name="t.noop")
    def noop(*args):
        return args

    return noop


@pytest.fixture
def lost(bench):
    return lambda: LostMessages(bench.pulse, bench.pulse.store.client)


def test_in_an_empty_queue_nothing_waits(bench, noop, lost):
    job_id = noop.delay().id
    assert not lost().has(job_id)
    bench.messages()
    assert lost().has(job_id)


def test_a_job_that_its_queue_has_passed_over_is_lost_though_others_wait(bench, noop, lost, valkey):
    old = noop.delay("old").id
    bench.messages()
    valkey.zincrby(bench.pulse.keys.partition(0).queued, -5_000_000, old)
    noop.delay("younger")
    bench.drain()
    waiting = noop.delay("waits").id
    assert lost().has(old)
    assert not lost().has(waiting)


def test_a_job_that_is_not_queued_has_no_message_to_lose(bench, noop, lost):
    job_id = noop.delay().id
    bench.drain()
    assert not lost().has(job_id)
    assert not lost().has("ghost")


def test_a_queue_is_asked_once_a_look(bench, noop, lost, monkeypatch):
    ids = [noop.delay(n).id for n in range(20)]
    asked = []
    monkeypatch.setattr(module, "queue_depth", lambda app, queue: asked.append(queue) or 20)
    look = lost()
    assert not any(look.has(job_id) for job_id in ids)
    assert len(asked) == 1
