"""The life of a job as data: which event leads from which state to which.

Code, scripts, docs and tests all read this one table. ``TRANSITIONS[state, event]`` is the next
state; a pair that is not in the table changes nothing.
"""

from __future__ import annotations

from enum import StrEnum

__all__ = ["LIVE", "TERMINAL", "TRANSITIONS", "Event", "State", "Verdict", "next_state"]


class State(StrEnum):
    """What the record says."""

    SCHEDULED = "SCHEDULED"
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    RETRYING = "RETRYING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    EXPIRED = "EXPIRED"
    IGNORED = "IGNORED"
    REJECTED = "REJECTED"
    DEAD = "DEAD"


class Event(StrEnum):
    """What can happen to a job."""

    DUE = "due"  # its time came
    CLAIM = "claim"  # a worker got the right to run it
    COMPLETE = "complete"
    FAIL = "fail"
    RETRY = "retry"  # the task asked for another attempt later
    REPLACE = "replace"  # the task put another task under its id
    PARK = "park"  # it waits for the job that holds its key
    IGNORE = "ignore"
    REJECT = "reject"
    REQUEUE = "requeue"  # Reject(requeue=True)
    CANCEL = "cancel"
    EXPIRE = "expire"
    CRASH = "crash"  # lease gone, budget left
    BURY = "bury"  # lease gone, budget spent
    UNPUBLISHED = "unpublished"  # the producer could not publish it


class Verdict(StrEnum):
    """What a reader may conclude from record, telemetry, lease and alive key together."""

    SCHEDULED = "scheduled"
    QUEUED = "queued"
    RUNNING = "running"
    SLOW = "slow"  # alive, beats come late
    STALLED = "stalled"  # alive, no progress and no CPU use
    CRASHED = "crashed"  # RUNNING without a lease
    RETRYING = "retrying"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    IGNORED = "ignored"
    REJECTED = "rejected"
    DEAD = "dead"
    GONE = "gone"  # retention is over
    UNKNOWN = "unknown"


TERMINAL = frozenset(
    {
        State.COMPLETED,
        State.FAILED,
        State.CANCELLED,
        State.EXPIRED,
        State.IGNORED,
        State.REJECTED,
        State.DEAD,
    }
)
LIVE = frozenset(State) - TERMINAL

_WAITING = (State.SCHEDULED, State.RETRYING)

TRANSITIONS: dict[tuple[State, Event], State] = {
    **{(state, Event.DUE): State.QUEUED for state in _WAITING},
    **{(state, Event.CLAIM): State.RUNNING for state in LIVE},
    (State.RUNNING, Event.COMPLETE): State.COMPLETED,
    (State.RUNNING, Event.FAIL): State.FAILED,
    (State.QUEUED, Event.FAIL): State.FAILED,  # a worker has its message, and cannot even begin
    (State.RUNNING, Event.RETRY): State.RETRYING,
    (State.RUNNING, Event.REPLACE): State.QUEUED,
    (State.QUEUED, Event.PARK): State.SCHEDULED,
    (State.RUNNING, Event.IGNORE): State.IGNORED,
    (State.RUNNING, Event.REJECT): State.REJECTED,
    (State.RUNNING, Event.REQUEUE): State.QUEUED,
    **{(state, Event.CANCEL): State.CANCELLED for state in LIVE},
    **{(state, Event.EXPIRE): State.EXPIRED for state in (*_WAITING, State.QUEUED)},
    (State.RUNNING, Event.CRASH): State.QUEUED,
    (State.RUNNING, Event.BURY): State.DEAD,
    (State.QUEUED, Event.UNPUBLISHED): State.CANCELLED,
    (State.SCHEDULED, Event.UNPUBLISHED): State.CANCELLED,
}


def next_state(state: State, event: Event) -> State | None:
    """Return the state after ``event``, or None if the event changes nothing in ``state``."""
    return TRANSITIONS.get((state, event))
