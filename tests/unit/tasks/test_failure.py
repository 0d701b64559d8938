"""Whatever leaves a body ends the job as one clean failure: record, result, error link, chord."""

from __future__ import annotations

import sys
import threading

import pytest
from celery import chord, signals
from celery.exceptions import TimeoutError as NotYetError

from denyut.errors import JobExited
from denyut.states import State
from denyut.tasks.failure import as_failure


class OwnError(BaseException):
    """Of a library that wants to be let through."""


class TakesMoreError(Exception):
    def __init__(self, first, second):
        super().__init__(first)
        self.second = second


class ShowsNothingError(Exception):
    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __str__


class RefusesPickleError(Exception):
    def __reduce__(self):
        raise RuntimeError("no")


def circle():
    value = []
    value.append(value)
    return value


def deep():
    value = []
    for _ in range(100_000):
        value = [value]
    return value


def leave(*args):
    sys.exit(*args)


def throw(exc):
    raise exc


BODIES = {
    "sys.exit()": (leave, "JobExited"),
    "sys.exit(0)": (lambda: leave(0), "JobExited"),
    "sys.exit(text)": (lambda: leave("enough"), "JobExited"),
    "exit as billiard does": (lambda: leave(-241), "JobExited"),
    "KeyboardInterrupt": (lambda: throw(KeyboardInterrupt()), "JobExited"),
    "GeneratorExit": (lambda: throw(GeneratorExit()), "JobExited"),
    "own BaseException": (lambda: throw(OwnError("x")), "JobExited"),
    "lock in the arguments": (lambda: throw(ValueError(threading.Lock())), "ValueError"),
    "needs other arguments": (lambda: throw(TakesMoreError(1, 2)), "TakesMoreError"),
    "no text": (lambda: throw(ShowsNothingError("x")), "ShowsNothingError"),
    "no pickle": (lambda: throw(RefusesPickleError("x")), "RefusesPickleError"),
    "local class": (lambda: throw(type("LocalError", (Exception,), {})("x")), "LocalError"),
    "surrogates": (lambda: throw(ValueError("\udcff")), "ValueError"),
    "out of memory": (lambda: throw(MemoryError("x")), "MemoryError"),
    "returns a lock": (threading.Lock, "EncodeError"),
    "returns a generator": (lambda: (x for x in ()), "EncodeError"),
    "returns itself": (circle, "EncodeError"),
    "returns too deep": (deep, "EncodeError"),
    "returns an odd key": (lambda: {(1, 2): 3}, "EncodeError"),
}


@pytest.fixture(params=BODIES)
def body(request):
    return BODIES[request.param]


def test_it_ends_as_one_failure_with_its_error_link_and_its_caller_told(bench, body):
    act, error = body
    failures = []

    @bench.task(name="t.fails")
    def fails():
        return act()

    @bench.task(name="t.errback")
    def errback(task_id):
        return task_id

    def on_failure(task_id=None, **_):
        failures.append(task_id)

    signals.task_failure.connect(on_failure)
    result = fails.apply_async(link_error=errback.s())
    [message] = bench.messages()
    bench.run(message)
    signals.task_failure.disconnect(on_failure)
    record = bench.record(result.id)
    assert (record.state, record.error[0], record.settled) == (State.FAILED, error, True)
    assert (record.attempt, record.crashes) == (1, 0)
    assert result.state == "FAILURE"
    with pytest.raises(Exception):  # noqa: B017 - any that a caller can catch
        result.get(timeout=5)
    assert failures == [result.id]
    assert [m.payload[0] for m in bench.messages()] == [[result.id]]
    bench.run(message)
    assert bench.messages() == [], "a copy changes nothing more"


def test_its_chord_fails_instead_of_waiting_for_ever(bench, body):
    act, _ = body

    @bench.task(name="t.noop")
    def noop(*args):
        return 1

    @bench.task(name="t.fails")
    def fails():
        return act()

    result = chord([noop.s(), fails.s()])(noop.s())
    bench.drain()
    assert result.state == "FAILURE"
    with pytest.raises(Exception) as told:
        result.get(timeout=5)
    assert not isinstance(told.value, NotYetError)


def test_values_that_the_serializer_takes_are_results(bench):
    @bench.task(name="t.odd")
    def odd():
        return ["\udcff", float("inf")]

    result = odd.delay()
    bench.drain()
    assert bench.record(result.id).state == State.COMPLETED
    assert result.get(timeout=5) == ["\udcff", float("inf")]


def test_autoretry_does_not_apply_to_what_is_no_exception(bench):
    @bench.task(name="t.exits", autoretry_for=(Exception,), max_retries=3, default_retry_delay=0)
    def exits():
        sys.exit(3)

    result = exits.delay()
    assert bench.drain() == 1
    assert bench.record(result.id).state == State.FAILED
    with pytest.raises(JobExited, match=r"SystemExit\(3\)"):
        result.get(timeout=5)


def test_an_exception_is_told_as_it_is_and_keeps_its_cause_else():
    error = ValueError("x")
    assert as_failure(error) is error
    exit_ = SystemExit(2)
    failure = as_failure(exit_)
    assert (failure.kind, failure.text, failure.__cause__) == ("SystemExit", "2", exit_)


@pytest.mark.parametrize(
    ("where", "error"),
    [
        ("before_start", ValueError("x")),
        ("before_start", SystemExit(1)),
        ("prerun", SystemExit(1)),  # an Exception of a signal handler is logged and forgotten
        ("prerun", OwnError("x")),
    ],
)
def test_a_hook_before_the_body_that_fails_ends_the_job_too(bench, where, error):
    def hook(*args, **kwargs):
        raise error

    options = {"before_start": hook} if where == "before_start" else {}

    @bench.task(name="t.hooked", **options)
    def hooked():
        return 1

    if where == "prerun":
        signals.task_prerun.connect(hook)
    result = hooked.delay()
    bench.drain()
    signals.task_prerun.disconnect(hook)
    record = bench.record(result.id)
    assert (record.state, record.settled) == (State.FAILED, True)
    assert result.state == "FAILURE"


def test_a_hook_after_the_body_that_exits_does_not_undo_the_outcome(bench):
    def leaves(self, *args):
        sys.exit(1)

    @bench.task(name="t.hooked", on_success=leaves)
    def hooked():
        return 1

    result = hooked.delay()
    bench.drain()
    assert bench.record(result.id).state == State.COMPLETED
    assert result.get(timeout=5) == 1


@pytest.mark.parametrize("damage", ["checkpoint", "result", "exc"])
def test_a_record_that_cannot_be_read_does_not_leave_its_job_running(bench, valkey, damage):
    @bench.task(name="t.noop")
    def noop():
        return 1

    result = noop.delay()
    [message] = bench.messages()
    record = bench.pulse.keys.job(result.id).record
    if damage != "checkpoint":
        state = "COMPLETED" if damage == "result" else "FAILED"
        valkey.hset(record, mapping={"state": state, "settled": "0", "token": "x", "attempt": 1})
    valkey.hset(record, damage, "{not JSON")
    bench.run(message)
    found = bench.record(result.id) if damage != "checkpoint" else None
    if found is not None:
        assert found.settled
    assert valkey.hget(record, "settled") == b"1"
    assert result.state == "FAILURE"
