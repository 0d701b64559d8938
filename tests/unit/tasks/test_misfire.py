"""Misfire policies: what is allowed, and whose rule holds."""

from __future__ import annotations

import json

import pytest

from denyut.errors import ConfigurationError
from denyut.tasks.misfire import misfire_rules


def nothing():
    return None


def test_by_default_nothing_is_skipped(bench):
    bench.task(name="t.plain")(nothing)
    assert misfire_rules(bench.pulse) == ""


def test_a_task_has_its_own_rule_where_it_differs_from_the_setting(make_bench):
    bench = make_bench(denyut_misfire="skip", denyut_misfire_grace=5)
    bench.task(name="t.as_set")(nothing)
    bench.task(name="t.always", misfire="run")(nothing)
    bench.task(name="t.patient", misfire_grace=60)(nothing)
    rules = json.loads(misfire_rules(bench.pulse))
    assert (rules[""], rules["t.always"], rules["t.patient"]) == (5_000_000, False, 60_000_000)
    assert "t.as_set" not in rules


def test_one_task_that_skips_is_enough_to_have_rules(bench):
    bench.task(name="t.skips", misfire="skip")(nothing)
    assert json.loads(misfire_rules(bench.pulse)) == {"": False, "t.skips": 60_000_000}


@pytest.mark.parametrize(
    ("option", "value"),
    [("misfire", "maybe"), ("misfire", True), ("misfire_grace", 0.5), ("misfire_grace", "1"),
     ("misfire_grace", float("nan")), ("misfire_grace", True)],
)  # fmt: skip
def test_an_option_that_cannot_be_meant_is_an_error_that_says_what_is_allowed(bench, option, value):
    with pytest.raises(ConfigurationError, match=f"{option}={value!r}: must be"):
        bench.task(name="t.wrong", lazy=False, **{option: value})(nothing)
