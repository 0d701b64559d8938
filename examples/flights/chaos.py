"""The two kills: one pool process, then a whole worker, each with SIGKILL and in the middle of a job."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

from snapshot import worker_of

from denyut.states import State

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from denyut.monitoring.status import Status

_LATEST = 0.9  # a job that is further than this might end before the signal arrives


class Chaos:
    """Call :meth:`act` often; it kills when the moment is right.

    Args:
        kill_worker: kills the worker of this name, and starts it again as a supervisor would.
        say: tells the audience.
    """

    def __init__(self, kill_worker: Callable[[str], None], say: Callable[[str], None]) -> None:
        self._kill_worker = kill_worker
        self._say = say
        self._acts = [self._on_a_child, self._on_a_worker]
        #: Crashes of each job before the act that is being played: did it hit anybody?
        self._before: dict[str, int] = {}
        self._spared = ""  # the worker that the next act leaves alone if it can

    @property
    def acts_left(self) -> int:
        """Kills that have not hit a running job yet."""
        return len(self._acts)

    def act(self, jobs: Mapping[str, Status]) -> None:
        """Kill if it is time, or see whom the last kill has hit."""
        if self._before:
            self._look_back(jobs)
        elif self._acts and (ready := {month: s for month, s in jobs.items() if _is_midway(s)}):
            # Whoever is a victim may complete before the signal arrives: then it is tried again.
            self._before = {month: jobs[month].crashes for month in self._acts[0](ready, jobs)}

    def _look_back(self, jobs: Mapping[str, Status]) -> None:
        hit = [month for month, before in self._before.items() if jobs[month].crashes > before]
        if hit and all(jobs[month].state != State.QUEUED for month in hit):  # they run again
            del self._acts[0]
            self._before = {}
        elif all(jobs[month].terminal for month in self._before):
            self._say("that came too late: every job it was meant for had just ended; again")
            self._before = {}

    def _on_a_child(self, ready: Mapping[str, Status], _: Mapping[str, Status]) -> list[str]:
        month, status = next(iter(ready.items()))
        assert status.record is not None
        assert status.record.pid is not None
        self._spared = worker_of(status)
        self._say(f"SIGKILL to pool process {status.record.pid} of {self._spared}, in the middle of {month}")
        with suppress(ProcessLookupError):
            os.kill(status.record.pid, signal.SIGKILL)
        return [month]

    def _on_a_worker(self, ready: Mapping[str, Status], jobs: Mapping[str, Status]) -> list[str]:
        workers = {worker_of(status) for status in ready.values()}
        worker = min(workers, key=lambda name: (name == self._spared, name))
        hit = [month for month, s in jobs.items() if s.state == State.RUNNING and worker_of(s) == worker]
        self._say(f"SIGKILL to worker {worker} and so to its children, in the middle of {', '.join(hit)}")
        self._kill_worker(worker)
        return hit


def _is_midway(status: Status) -> bool:
    record = status.record
    return (
        record is not None
        and record.state == State.RUNNING
        and record.checkpoint is not None
        and (status.progress or 0.0) < _LATEST
    )
