from __future__ import annotations

import pytest

from denyut.errors import InvalidKey
from denyut.tasks.keying import hold_key, key_of_call, key_of_message


class Task:
    idempotency_key = "t:{x}"

    @staticmethod
    def run(x):
        return x


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"idempotency_key": "a", "headers": {"idempotency_key": "b"}}, "a"),
        ({"headers": {"idempotency_key": "b"}}, "b"),
        ({"headers": None}, "t:1"),
        ({}, "t:1"),
    ],
)
def test_argument_before_header_before_template(options, expected):
    assert key_of_call(Task, (1,), {}, options) == expected
    assert "idempotency_key" not in options


def test_a_task_without_a_template_has_no_key():
    assert key_of_call(None, (1,), {}, {}) is None


def test_an_empty_key_is_an_error_and_not_no_key():
    with pytest.raises(InvalidKey):
        key_of_call(Task, (1,), {}, {"idempotency_key": ""})


def test_a_held_key_answers_who_holds_it(bench):
    assert hold_key(bench.pulse, "one", "d" * 40, "fp") == ("HELD", "one")
    assert hold_key(bench.pulse, "one", "d" * 40, "fp") == ("HELD", "one")
    assert hold_key(bench.pulse, "two", "d" * 40, "fp") == ("DUPLICATE", "one")
    assert hold_key(bench.pulse, "two", "d" * 40, "other") == ("CONFLICT", "one")


def test_a_held_key_never_stays_for_ever(bench, valkey):
    hold_key(bench.pulse, "one", "d" * 40, "fp")
    assert valkey.ttl(bench.pulse.keys.idempotency("d" * 40)) > 0


def test_a_plain_message_without_a_key_has_none(bench):
    @bench.task(name="t.noop")
    def noop():
        pass

    assert key_of_message(bench.pulse, noop, "j", {}).digest == ""
