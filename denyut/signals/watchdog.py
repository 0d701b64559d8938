"""Letting go of jobs that will not end: those that stall, if the settings say so, and that run too long.

The heartbeat renews such a job's lease no more, and tells its body to stop, as one that has lost its lease.
From there on it goes the way of every attempt that is cut short: when its process has ended, or its lease
has lapsed, it runs again, and it counts as a crash: one that does so each time ends in the dead letter.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic, monotonic_ns
from typing import TYPE_CHECKING

from denyut.signals.procfs import usage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from denyut.config import Settings
    from denyut.tasks.slots import SlotState

__all__ = ["LetGo", "Watchdog"]

_Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class LetGo:
    """A job whose lease is renewed no more. ``kind``: ``stalled`` or ``overran``; ``why``: for people."""

    job: SlotState
    kind: str
    why: str
    #: Its process is to be killed now, and not first told to stop.
    at_once: bool


@dataclass(slots=True)
class _Seen:
    signs: tuple[int, int, float]
    since: float


class Watchdog:
    """Used by the heartbeat's thread alone.

    Args:
        settings: of the app: ``on_stall``, ``stall_after``.
    """

    def __init__(self, settings: Settings) -> None:
        self._policy = settings.on_stall
        self._stall_after = settings.stall_after
        self._seen: dict[_Place, _Seen] = {}
        self._gone: set[_Place] = set()

    def look(self, jobs: Iterable[SlotState]) -> list[LetGo]:
        """Return those of the running ``jobs`` that are to be let go of; each is named once."""
        places = {(job.index, job.fence): job for job in jobs}
        self._gone &= places.keys()
        found = []
        for place, job in places.items():
            if place not in self._gone and (gone := self._overran(job) or self._stalled(place, job)):
                self._gone.add(place)
                found.append(gone)
        for place in self._seen.keys() - places.keys():
            del self._seen[place]
        return found

    def kept(self, jobs: Iterable[SlotState]) -> list[SlotState]:
        """Return those of ``jobs`` whose leases are to be renewed."""
        return [job for job in jobs if (job.index, job.fence) not in self._gone] if self._gone else list(jobs)

    def _overran(self, job: SlotState) -> LetGo | None:
        if not job.max_runtime or (monotonic_ns() - job.started_ns) / 1e9 <= job.max_runtime:
            return None
        return LetGo(job, "overran", f"it ran longer than max_runtime={job.max_runtime:g} s", at_once=False)

    def _stalled(self, place: _Place, job: SlotState) -> LetGo | None:
        if self._policy == "show":
            return None
        used, now = usage(job.pid), monotonic()
        signs = (job.progress_seq, job.stage_seq, used.cpu_s if used is not None else 0.0)
        seen = self._seen.get(place)
        if seen is None or seen.signs != signs:
            self._seen[place] = _Seen(signs, now)
            return None
        if now - seen.since <= self._stall_after:
            return None
        why = f"it told no progress and used no CPU for stall_after={self._stall_after:g} s"
        return LetGo(job, "stalled", why, at_once=self._policy == "kill")
