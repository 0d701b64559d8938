"""A job that was ended from outside is told to Celery once, also if whoever tells dies at it."""

from __future__ import annotations

import os

import pytest
from billiard.einfo import ExceptionInfo
from celery import chord
from celery.exceptions import ChordError, TimeLimitExceeded
from support import DiedError

from denyut.states import State
from denyut.tasks.node import current_node
from denyut.tasks.recover import recover
from denyut.tasks.request import JobRequest


@pytest.fixture
def tasks(bench):
    @bench.task(name="t.noop", acks_late=True)
    def noop(*_):
        return 1

    @bench.task(name="t.errback")
    def errback(task_id):
        return task_id

    return {"noop": noop, "errback": errback}


@pytest.fixture
def over_the_limit(bench, tasks):
    """Run one message up to its hard time limit, as the worker's main process meets it."""

    def run(message, told=lambda: None):
        request = JobRequest(
            message,
            app=bench.app,
            task=tasks["noop"],
            hostname="w",
            on_ack=lambda *_: None,
            on_reject=lambda *_: None,
        )
        request.worker_pid = os.getpid()

        def body(*_):
            told()
            request.on_failure(info_of(TimeLimitExceeded(5)))

        tasks["noop"].run = body
        bench.run(message)

    return run


def info_of(exc):
    try:
        raise exc
    except type(exc):
        return ExceptionInfo()


def sent(bench):
    return [(m.headers["task"], m.headers["id"]) for m in bench.messages()]


def test_it_is_settled_when_celery_has_been_told(bench, tasks, over_the_limit):
    result = tasks["noop"].apply_async(link_error=tasks["errback"].s())
    over_the_limit(bench.messages()[0])
    record = bench.record(result.id)
    assert (record.state, record.settled) == (State.FAILED, True)
    assert result.state == "FAILURE"
    assert [name for name, _ in sent(bench)] == ["t.errback"]


@pytest.mark.parametrize("dies", ["before", "after"])
def test_recovery_has_it_told_if_the_teller_dies(bench, tasks, over_the_limit, monkeypatch, dies):
    result = tasks["noop"].apply_async(link_error=tasks["errback"].s())
    [message] = bench.messages()
    backend = type(bench.app.backend)
    name = "mark_as_failure" if dies == "before" else "settle"
    place = backend if dies == "before" else "denyut.tasks.telling"

    def die(*_, **__):
        raise DiedError

    def patch():
        monkeypatch.setattr(*((place, name, die) if dies == "before" else (f"{place}.{name}", die)))

    with pytest.raises(DiedError):
        over_the_limit(message, patch)
    monkeypatch.undo()
    first = sent(bench)
    assert bench.record(result.id).settled is False
    owner = bench.pulse.store.client.get(bench.pulse.keys.job(result.id).lease)
    assert owner.decode().startswith(current_node().owner)
    bench.crash(result.id)
    assert recover(bench.pulse, result.id, "lapsed") == "PUBLISH"
    [again] = bench.messages()
    bench.run(again)
    links = first + sent(bench)
    assert [name for name, _ in links] == ["t.errback"]
    record = bench.record(result.id)
    assert (record.state, record.settled) == (State.FAILED, True)
    assert isinstance(result.result, TimeLimitExceeded)


def test_its_chord_fails_too(bench, tasks, over_the_limit, monkeypatch):
    body = chord([tasks["noop"].s(), tasks["noop"].s()])(tasks["noop"].s())
    first, second = bench.messages()
    bench.run(first)

    def die(*_, **__):
        raise DiedError

    with pytest.raises(DiedError):
        over_the_limit(second, lambda: monkeypatch.setattr(type(bench.app.backend), "mark_as_failure", die))
    monkeypatch.undo()
    bench.crash(second.headers["id"])
    recover(bench.pulse, second.headers["id"], "lapsed")
    bench.drain()
    with pytest.raises((ChordError, TimeLimitExceeded)):
        body.get(timeout=5)
