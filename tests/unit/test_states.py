from __future__ import annotations

import re
from pathlib import Path

import pytest

import denyut
from denyut.states import LIVE, TERMINAL, TRANSITIONS, Event, State, Verdict, next_state


def test_the_table_is_closed_over_states_and_events():
    for (state, event), after in TRANSITIONS.items():
        assert isinstance(state, State)
        assert isinstance(event, Event)
        assert isinstance(after, State)


@pytest.mark.parametrize("state", sorted(TERMINAL))
def test_nothing_leads_out_of_a_terminal_state(state):
    for event in Event:
        assert next_state(state, event) is None


def test_every_event_changes_some_state():
    assert {event for _, event in TRANSITIONS} == set(Event)


def test_every_state_is_live_or_terminal():
    assert set(State) == LIVE | TERMINAL
    assert not LIVE & TERMINAL


def test_every_state_can_be_reached_from_a_new_job():
    reached = {State.SCHEDULED, State.QUEUED}
    while more := {after for (state, _), after in TRANSITIONS.items() if state in reached} - reached:
        reached |= more
    assert reached == set(State)


@pytest.mark.parametrize("state", sorted(LIVE))
def test_every_live_state_can_end(state):
    seen = {state}
    while more := {after for (at, _), after in TRANSITIONS.items() if at in seen} - seen:
        seen |= more
    assert seen & TERMINAL


def test_only_a_running_job_can_end_by_its_own_doing():
    for event in (Event.COMPLETE, Event.IGNORE, Event.REJECT, Event.BURY):
        assert [state for state in State if next_state(state, event)] == [State.RUNNING]


def test_every_state_has_a_verdict_of_its_name():
    assert {state.lower() for state in State} <= {verdict.value for verdict in Verdict}


def test_a_state_that_a_script_writes_is_one_of_the_table():
    # Scripts are text: a misspelled state in one would be a state of its own.
    known = set(State)
    for path in Path(denyut.__file__).parent.rglob("*.lua"):
        text = re.sub(r"--.*", "", path.read_text())
        for word in re.findall(r"'state', '([A-Z]+)'|state [=~]= '([A-Z]+)'", text):
            assert "".join(word) in known, f"{path.name} knows a state {word}"
