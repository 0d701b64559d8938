"""What a reader may conclude: a pure function of one atomic read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from denyut.states import TERMINAL, State, Verdict

if TYPE_CHECKING:
    from denyut.monitoring.telemetry import Telemetry
    from denyut.tasks.record import JobRecord

__all__ = ["conclude", "poll_after"]

_SOONEST_MS, _LATEST_MS = 500, 5000

#: A beat is late when it is missing for longer than this many intervals.
_LATE = 2.0


def conclude(
    record: JobRecord | None,
    telemetry: Telemetry | None,
    *,
    leased: bool,
    alive: bool,
    now_us: int,
    beat_interval: float,
    stall_after: float,
) -> Verdict:
    """Return the verdict on a job.

    Args:
        record: what the record says; None if there is none.
        telemetry: of the newest attempt; None before its first beat.
        leased: whether its lease is there.
        alive: whether its alive key is there.
        now_us: Redis' time of the read.
        beat_interval: seconds between two beats.
        stall_after: seconds without progress and CPU use after which a job is stalled.
    """
    if record is None:
        return Verdict.UNKNOWN
    if record.state != State.RUNNING:
        return Verdict(record.state.lower())
    if not leased:
        return Verdict.CRASHED
    since_beat = now_us - (telemetry.last_heartbeat if telemetry else record.started_at or now_us)
    if not alive or since_beat > _LATE * beat_interval * 1e6:
        return Verdict.SLOW
    if telemetry is not None and now_us - telemetry.last_active > stall_after * 1e6:
        return Verdict.STALLED
    return Verdict.RUNNING


def poll_after(record: JobRecord | None, now_us: int) -> int:
    """Return the milliseconds until the next look: a tenth of the attempt's age, from 500 to 5000.

    0 when it has ended. A job without a record may get one: that of a client without Denyut is
    recorded by the worker that receives it.
    """
    if record is None:
        return _LATEST_MS
    if record.state in TERMINAL:
        return 0
    begin = record.started_at or record.queued_at or now_us
    return round(min(max((now_us - begin) / 10_000, _SOONEST_MS), _LATEST_MS))
