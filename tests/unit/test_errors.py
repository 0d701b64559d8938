from __future__ import annotations

import inspect
import json
import pickle

import pytest

from denyut import errors
from denyut.errors import (
    DenyutError,
    EventError,
    IdempotencyConflict,
    InvalidEvent,
    JobCancelled,
    JobInterrupt,
    LeaseLost,
)

KINDS = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, BaseException) and kind.__module__ == "denyut.errors"
]


def make(kind: type[BaseException]) -> BaseException:
    """Make one with a distinct value for every parameter of its constructor."""
    if kind.__init__ in {Exception.__init__, BaseException.__init__, object.__init__}:
        return kind("what went wrong")
    special = {"errors": [EventError(3, "not a number")], "sent": 7}
    values = {}
    for name, parameter in list(inspect.signature(kind.__init__).parameters.items())[1:]:
        if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}:
            return kind("what went wrong")
        values[name] = special.get(name, f"<{name}>")
    return kind(**values)


def test_every_error_is_public():
    assert {kind.__name__ for kind in KINDS} <= set(errors.__all__)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_one_except_catches_every_error(kind):
    assert issubclass(kind, DenyutError | JobInterrupt)


@pytest.mark.parametrize("kind", [LeaseLost, JobCancelled])
def test_what_stops_a_running_body_is_not_caught_as_an_ordinary_error(kind):
    assert issubclass(kind, JobInterrupt)
    assert not issubclass(kind, Exception)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_says_what_it_means(kind):
    assert (kind.__doc__ or "").strip().endswith(".")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_every_error_survives_the_way_from_a_pool_process(kind, protocol):
    error = make(kind)
    again = pickle.loads(pickle.dumps(error, protocol))
    assert type(again) is kind
    assert again.args == error.args
    assert str(again) == str(error)
    assert vars(again) == vars(error)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_can_be_raised_again_by_a_client_from_a_json_result(kind):
    from celery import Celery
    from celery.backends.base import Backend

    backend = Backend(app=Celery("errors", set_as_current=False))
    sent = json.loads(json.dumps(backend.prepare_exception(make(kind), serializer="json"), default=str))
    assert type(backend.exception_to_python(sent)) is kind


def test_a_conflict_names_key_task_and_job():
    error = IdempotencyConflict("order:1", "shop.pay", "JOB")
    assert (error.key, error.task, error.job_id) == ("order:1", "shop.pay", "JOB")
    for word in ("'order:1'", "'shop.pay'", "job JOB", "use another key"):
        assert word in str(error)


def test_invalid_events_are_named_up_to_five_of_them():
    error = InvalidEvent([EventError(i, f"reason {i}") for i in range(7)], sent=2)
    assert str(error).startswith("7 invalid event(s), 2 sent: event 0: reason 0; ")
    assert str(error).endswith("event 4: reason 4; and 2 more")
    assert InvalidEvent([EventError(1, "x")]).sent == 0
