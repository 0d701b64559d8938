"""The verdict is a pure function of what one read says: here is its table."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from denyut.monitoring.telemetry import Telemetry
from denyut.monitoring.verdict import conclude, poll_after
from denyut.states import TERMINAL, State, Verdict
from denyut.tasks.record import JobRecord

NOW = 1_700_000_000_000_000
SECOND = 1_000_000
BEAT, STALL = 2.0, 60.0


def record(state: str = "RUNNING", **fields) -> JobRecord:
    counts = dict.fromkeys(("generation", "attempt", "failures", "crashes", "fence", "version"), 1)
    return JobRecord(id="j", task="t", queue="q", state=State(state), **counts, **fields)


def beat(ago: float, active: float = 0.0) -> Telemetry:
    """Return telemetry whose last beat was ``ago`` seconds ago, and last activity ``active``."""
    at = round(NOW - ago * SECOND)
    moved = round(NOW - active * SECOND)
    numbers = dict.fromkeys(("fence", "attempt", "version"), 1)
    return Telemetry(status="RUNNING", **numbers, last_heartbeat=at, last_progress=moved, last_active=moved)


def verdict(record_, telemetry=None, *, leased=False, alive=False) -> Verdict:
    return conclude(
        record_, telemetry, leased=leased, alive=alive, now_us=NOW, beat_interval=BEAT, stall_after=STALL
    )


@pytest.mark.parametrize(
    ("why", "telemetry", "leased", "alive", "expected"),
    [
        ("beats come in time", beat(1.0), True, True, "running"),
        ("one beat is missing, two may be", beat(3.9), True, True, "running"),
        ("two beats are missing", beat(4.1), True, True, "slow"),
        ("the alive key is gone, the lease is there", beat(1.0), True, False, "slow"),
        ("no progress and no CPU use, but not for long", beat(1.0, active=59.0), True, True, "running"),
        ("no progress and no CPU use for long", beat(1.0, active=61.0), True, True, "stalled"),
        ("late beats say nothing of activity", beat(70.0, active=70.0), True, True, "slow"),
        ("the lease is gone", beat(1.0), False, True, "crashed"),
        ("lease and alive key are gone", beat(1.0), False, False, "crashed"),
    ],
)
def test_a_running_job_is_judged_by_its_lease_then_its_beats_then_its_activity(
    why, telemetry, leased, alive, expected
):
    started = record(started_at=NOW - 600 * SECOND)
    assert verdict(started, telemetry, leased=leased, alive=alive) == expected, why


@pytest.mark.parametrize(("started", "expected"), [(3.0, "running"), (5.0, "slow")])
def test_before_the_first_beat_the_start_counts_as_one(started, expected):
    begun = record(started_at=round(NOW - started * SECOND))
    assert verdict(begun, None, leased=True, alive=True) == expected


@pytest.mark.parametrize("state", [s for s in State if s != State.RUNNING])
@given(leased=st.booleans(), alive=st.booleans(), old=st.floats(0, 1e6))
def test_a_job_that_is_not_running_is_what_its_record_says(state, leased, alive, old):
    found = verdict(record(state), beat(old, active=old), leased=leased, alive=alive)
    assert found == state.lower()


def test_a_completed_job_whose_callbacks_are_not_sent_is_completed_also_without_a_lease():
    assert verdict(record("COMPLETED", settled=False)) == Verdict.COMPLETED


def test_a_job_without_a_record_is_unknown():
    assert verdict(None, beat(1.0), leased=True, alive=True) == Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("age", "expected"), [(0.0, 500), (4.0, 500), (20.0, 2000), (50.0, 5000), (86_400.0, 5000)]
)
def test_the_older_an_attempt_is_the_more_rarely_it_is_worth_a_look(age, expected):
    assert poll_after(record(started_at=round(NOW - age * SECOND)), NOW) == expected


def test_a_job_that_waits_is_as_old_as_its_enqueueing():
    assert poll_after(record("QUEUED", queued_at=NOW - 30 * SECOND), NOW) == 3000


@pytest.mark.parametrize("state", sorted(TERMINAL))
def test_a_job_that_has_ended_need_not_be_looked_at_again(state):
    assert poll_after(record(state), NOW) == 0


def test_an_unknown_job_may_still_be_recorded():
    assert poll_after(None, NOW) == 5000
