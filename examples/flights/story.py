"""What happened between two looks at the jobs, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from snapshot import worker_of

from denyut.states import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from denyut.monitoring.status import Status


def changes(before: Mapping[str, Status], after: Mapping[str, Status]) -> Iterator[str]:
    """Yield a line for each crash, new attempt and bad end that ``after`` shows and ``before`` does not."""
    for month, new in after.items():
        old = before[month]
        if new.crashes > old.crashes:
            yield f"{month}: attempt {old.attempt} crashed; the job is published again"
        if new.attempt > max(old.attempt, 1):
            yield f"{month}: {_resume(new)}"
        if new.terminal and not old.terminal and new.verdict != Verdict.COMPLETED:
            yield f"{month}: {new.verdict} {' '.join(new.error or ())}".rstrip()


def _resume(status: Status) -> str:
    record = status.record
    assert record is not None
    place = f"from its checkpoint at flight {record.checkpoint:,}" if record.checkpoint else "from the start"
    gap = (record.recovered_us or 0) / 1e6
    return (
        f"attempt {record.attempt} runs on {worker_of(status)} {place}, "
        f"{gap:.2f} s after the last sign of life"
    )
