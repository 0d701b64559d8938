"""What is true at one moment, read as any program would read it: jobs, medians, work that is left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from denyut.states import State

if TYPE_CHECKING:
    from collections.abc import Mapping

    from denyut import Denyut
    from denyut.median.read import Reading
    from denyut.monitoring.status import Status

_LIVE = (State.QUEUED, State.RUNNING, State.RETRYING, State.SCHEDULED)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """``jobs`` by month, ``medians`` by stream; ``settled`` when no job, also of the median, is left."""

    jobs: Mapping[str, Status]
    medians: Mapping[str, Reading]
    settled: bool

    @property
    def events(self) -> int:
        """Events that the medians are of."""
        return sum(reading.count for reading in self.medians.values())

    @property
    def share(self) -> float:
        """How much of the work the jobs have done, 0 to 1."""
        return sum(status.progress or 0.0 for status in self.jobs.values()) / max(len(self.jobs), 1)


def take(pulse: Denyut, jobs: Mapping[str, str]) -> Snapshot:
    """Read everything. ``jobs`` are the job ids by month."""
    # The work that is left is looked at first: nothing can come after it that is not in the medians then.
    settled = not any(pulse.jobs.list(state=state, limit=1).jobs for state in _LIVE)
    return Snapshot(
        read_jobs(pulse, jobs), {name: pulse.median.read(name) for name in pulse.median.streams()}, settled
    )


def read_jobs(pulse: Denyut, jobs: Mapping[str, str]) -> dict[str, Status]:
    """Read the status of each job, by month."""
    return {month: pulse.jobs.get(job_id, fresh=True) for month, job_id in jobs.items()}


def worker_of(status: Status) -> str:
    """Return the name of the worker that has, or had, the job; empty if none."""
    owner = status.record.owner if status.record else None
    return (owner or "").partition("|")[0]
