"""What will happen next to a job, in words: who will do it, and when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from denyut.states import State, Verdict

if TYPE_CHECKING:
    from denyut.config import Settings
    from denyut.monitoring.status import Status

__all__ = ["Waiting", "outlook"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Where a job is in the indexes (us; None: it is not), how many workers beat, and what is left of the
    record's life (s; None: it has no end of its own).

    ``turn``: it shared a dead worker and waits for its turn.
    """

    queued: int | None = None
    held: int | None = None
    scheduled: int | None = None
    dead: int | None = None
    turn: bool = False
    workers: int = 0
    left: float | None = None


def outlook(status: Status, waiting: Waiting, settings: Settings) -> str:
    """Return what will happen next to the job.

    Args:
        status: of the job; it has a record.
        waiting: where it is.
        settings: of the app.
    """
    record = status.record
    assert record is not None
    if status.terminal:
        return _over(status, waiting, settings)
    if status.state == State.RUNNING:
        return _running(status, waiting, settings)
    if status.state == State.QUEUED:
        return _queued(status, waiting, settings)
    if record.after and record.follows and not record.due:
        return f"it runs when job {record.follows} has ended, which has its key; {_who(waiting)} publishes it"
    due = _in(waiting.scheduled or record.due, status.now_us)
    return f"it is due {due}; then {_who(waiting)} publishes it"


def _running(status: Status, waiting: Waiting, settings: Settings) -> str:
    assert status.record is not None
    crashes = status.record.crashes
    budget = f"that would be lost worker {crashes + 1}, and it is dead after more than {settings.max_crashes}"
    if status.verdict == Verdict.CRASHED:
        spent = "its crash budget is spent then" if crashes >= settings.max_crashes else "it runs again"
        within = f"within {settings.recovery_interval:g} s"
        return f"its lease is gone; {_who(waiting)} takes it {within}, and {spent}"
    lapse = f"its lease lapses in {status.lease_ttl_ms / 1e3:.1f} s unless its worker beats"
    if status.verdict == Verdict.RUNNING:
        return f"it goes on; {lapse} (every {settings.beat_interval:g} s)"
    if status.verdict == Verdict.STALLED:
        return _stalled(settings)
    return f"{lapse}, then {_who(waiting)} publishes it again ({budget})"


def _stalled(settings: Settings) -> str:
    if settings.on_stall == "show":
        return "it is alive and neither moves nor computes; it goes on until it ends, or somebody ends it"
    return "it is alive and neither moves nor computes; its worker lets go of it, and it runs again"


def _queued(status: Status, waiting: Waiting, settings: Settings) -> str:
    assert status.record is not None
    if waiting.turn:
        return (
            f"it shared a dead worker with other jobs; {_who(waiting)} publishes it when its turn has "
            "come: they run one at a time, until it is known which of them kills workers"
        )
    if waiting.held is not None and waiting.held > status.now_us:
        left = _in(waiting.held, status.now_us)
        who = _who(waiting)
        return f"a worker has its message; if that dies, {who} publishes it again ({left} at the latest)"
    timeout = settings.queued_timeout
    since = status.now_us if waiting.queued is None else waiting.queued
    look = max(timeout - (status.now_us - since) / 1e6, 0.0)
    return (
        f"it waits in queue {status.record.queue} for a worker; if its message is nowhere, {_who(waiting)} "
        f"publishes it again in {look:.1f} s (denyut_queued_timeout={timeout:g})"
    )


def _over(status: Status, waiting: Waiting, settings: Settings) -> str:
    record = status.record
    assert record is not None
    if not record.settled:
        if status.lease:
            lapse = _span(status.lease_ttl_ms / 1e3)
            return f"what follows it is being sent; if that worker dies, another sends it in {lapse}"
        within = f"within {settings.recovery_interval:g} s"
        return f"what follows it was not sent yet; {_who(waiting)} sends it {within}"
    if record.retried_as:
        return f"nothing: it was retried by hand as job {record.retried_as}; {_forgotten(waiting)}"
    if waiting.dead is not None:
        left = settings.dead_retention - (status.now_us - waiting.dead) / 1e6
        return (
            "nothing by itself: it is a dead letter. To run it again as a new job: jobs retry; "
            f"it is purged in {_span(left)}"
        )
    return f"nothing; {_forgotten(waiting)}"


def _forgotten(waiting: Waiting) -> str:
    return f"it is forgotten in {_span(waiting.left)}" if waiting.left is not None else "it is kept"


def _who(waiting: Waiting) -> str:
    return "any worker" if waiting.workers else "the first worker that starts (none beats now)"


def _in(then_us: int | None, now_us: int) -> str:
    if then_us is None:
        return "at an unknown time"
    seconds = (then_us - now_us) / 1e6
    return f"in {_span(seconds)}" if seconds >= 0 else f"since {_span(-seconds)}"


def _span(seconds: float) -> str:
    seconds = max(seconds, 0.0)
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"
