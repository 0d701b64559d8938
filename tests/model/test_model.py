"""The protocol under arbitrary interleavings: bounded here, for long by `make model`."""

from __future__ import annotations

import pytest
from model.coverage import modelled, never_played, never_seen, report
from model.mutants import MUTANTS
from model.oracle import COVERAGE
from model.play import finds, own_server, play
from model.scripts import PROTOCOL, Library, documented_codes

pytestmark = pytest.mark.timeout(600)  # cores are shared

#: Printed by a failure, with the steps; another draws other examples.
SEED = 1
EXAMPLES = 15

#: Those that are found within a second or two; `make model` looks for all.
QUICK = ["a key for two jobs", "a crash is counted twice", "recovery without a new generation"]


@pytest.fixture(scope="module")
def model_redis():
    with own_server() as client:
        yield client


def test_the_protocol_keeps_its_promises_in_any_order_of_events(model_redis):
    COVERAGE.clear()
    play(model_redis, number=SEED, examples=EXAMPLES)
    assert COVERAGE.rules.total() > 10 * EXAMPLES
    called = {script for script, _ in COVERAGE.replies}
    assert {"reserve", "claim", "finish", "settle", "recover", "beat"} <= called
    assert "claim" in report()


@pytest.mark.parametrize("name", QUICK)
def test_the_model_finds_a_broken_script(model_redis, name):
    assert finds(model_redis, name, number=3, examples=60)


@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_every_mutant_breaks_one_line_of_a_script_as_it_is_now(name):
    mutant = MUTANTS[name]
    package = "denyut.signals" if mutant.script == "beat" else "denyut.tasks"
    text, sha = Library(mutant).load(package, mutant.script)
    assert (text, sha) != Library().load(package, mutant.script)


def test_what_was_never_exercised_is_reported():
    COVERAGE.clear()
    missing = never_seen()
    assert "script claim.lua was never called" in missing
    assert "no job took the transition claim in state QUEUED" in missing
    COVERAGE.replies["claim", "CLAIMED"] += 1
    assert "claim.lua never answered CLAIMED" not in never_seen()
    assert "claim.lua never answered BUSY" in never_seen()
    assert "script finish.lua was never called" in never_played()
    assert not any("never answered" in line for line in never_played())


def test_the_codes_of_a_script_are_those_of_its_head():
    assert documented_codes("denyut.tasks", "settle") == {"OK", "LOST"}
    assert {"CLAIMED", "REPLAY", "BUSY", "UNRECORDED"} <= documented_codes("denyut.tasks", "claim")
    assert documented_codes("denyut.tasks", "park") == {"0", "1"}
    assert len(PROTOCOL) == 2
    assert {"claim", "beat"} <= set(modelled())
