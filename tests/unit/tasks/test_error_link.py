"""An error link that Celery calls in place is called once (dying at every step: test_continuation.py)."""

from __future__ import annotations

import pytest

from denyut.states import State


@pytest.fixture
def called(bench):
    found = []

    @bench.task(name="t.fails")
    def fails():
        raise ValueError("as told")

    @bench.task(name="t.link")
    def link(request, exc, traceback):
        found.append((request.id, repr(exc)))
        if len(found) > 1:
            raise KeyError("the link itself")

    return found


def unsettled(bench, message, monkeypatch):
    """Run a message whose process dies before it settles."""
    from redis.exceptions import ConnectionError as RedisConnectionError

    from denyut.tasks import attempt

    def away(*args, **kwargs):
        raise RedisConnectionError("away")

    with monkeypatch.context() as patch:
        patch.setattr(attempt, "settle", away)
        bench.run(message)
    bench.crash(message.headers["id"])


def test_a_replay_skips_the_links_that_have_returned(bench, called, monkeypatch):
    link = bench.app.tasks["t.link"]
    result = bench.app.tasks["t.fails"].apply_async(link_error=link.s())
    [message] = bench.messages()
    unsettled(bench, message, monkeypatch)
    assert called == [(result.id, "ValueError('as told')")]
    bench.run(message)
    assert len(called) == 1
    assert bench.record(result.id).settled


def test_two_links_to_one_task_are_two_links_and_one_that_raises_is_done(bench, called, monkeypatch):
    link = bench.app.tasks["t.link"]
    bench.app.tasks["t.fails"].apply_async(link_error=[link.s(), link.s()])
    [message] = bench.messages()
    unsettled(bench, message, monkeypatch)
    assert len(called) == 2
    bench.run(message)
    assert len(called) == 2


def test_a_task_that_a_body_calls_directly_is_called_each_time(bench, called):
    link = bench.app.tasks["t.link"]

    @bench.task(name="t.calls", bind=True)
    def calls(self):
        link(self.request, None, None)
        return len(called)

    result = calls.delay()
    bench.drain()
    assert bench.record(result.id).state == State.COMPLETED
    assert len(called) == 1
