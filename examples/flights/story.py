"""What happened between two looks at the jobs, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from snapshot import worker_of

from denyut.states import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from denyut.monitoring.status import Status


def changes(before: Mapping[str, Status], after: Mapping[str, Status]) -> Iterator[str]:
    """Yield a line for each crash, new attempt and bad end that ``after`` shows and ``before`` did not."""
    for month, new in after.items():
        old = before.get(month)
        if old is None or old.record is None or new.record is None:
            continue
        if new.record.crashes > old.record.crashes:
            yield f"{month}: attempt {old.record.attempt} crashed; its message is published again"
        elif new.verdict == Verdict.CRASHED != old.verdict:
            yield f"{month}: its lease is gone"
        if new.record.attempt > max(old.record.attempt, 1):
            kept = new.record.checkpoint
            place = f"from its checkpoint at flight {kept:,}" if kept else "from the start"
            gap = (new.record.recovered_us or 0) / 1e6
            yield (
                f"{month}: attempt {new.record.attempt} runs on {worker_of(new)} {place}, "
                f"{gap:.2f} s after the last sign of life"
            )
        if new.terminal and not old.terminal and new.verdict != Verdict.COMPLETED:
            yield f"{month}: {new.verdict} {' '.join(new.record.error or ())}"
