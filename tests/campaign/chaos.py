"""The killer from outside: seeded SIGKILL, and pauses past the lease, at random processes."""

from __future__ import annotations

import os
import signal
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from time import monotonic
from typing import Any

#: How likely each is: a pool process, the main process alone, the whole node at once, a node that is
#: paused for longer than its leases.
WHAT = {"child": 76, "main": 8, "node": 8, "pause": 8}


@dataclass
class Chaos:
    """Kills now and then. ``step`` is called often; the schedule is its own.

    It goes by the work that was done, not by the time: a slow machine is not killed to a standstill.

    Args:
        seed: of the schedule.
        every: mean number of effects between two kills.
        pause: how long a pause lasts (s).
    """

    seed: int
    every: float
    pause: float
    kills: Counter[str] = field(default_factory=Counter)
    #: How many running jobs the kills and pauses may have hit at most.
    may_have_hit: int = 0
    _paused: list[tuple[float, list[int]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._draw = Random(f"chaos/{self.seed}")
        self._next = self._draw.expovariate(1 / self.every)

    def step(self, workers: list[Any], done: int) -> None:
        """Do what is due, after ``done`` effects, to one of ``workers``: those that are up."""
        now = monotonic()
        for until, pids in [entry for entry in self._paused if entry[0] <= now]:
            self._signal(pids, signal.SIGCONT)
            self._paused.remove((until, pids))
        if done < self._next or not workers:
            return
        self._next = done + self._draw.expovariate(1 / self.every)
        what = self._draw.choices(list(WHAT), list(WHAT.values()))[0]
        self._do(what, self._draw.choice(workers), now)

    def end(self) -> None:
        """Wake up whoever is paused."""
        for _, pids in self._paused:
            self._signal(pids, signal.SIGCONT)
        self._paused.clear()

    def _do(self, what: str, worker: Any, now: float) -> None:
        pool = worker.pool_pids
        if not pool:
            return  # it is starting, or ending
        if what == "child":
            self._signal([self._draw.choice(pool)], signal.SIGKILL)
        elif what == "main":
            self._signal([worker.pid], signal.SIGKILL)
        elif what == "node":
            with suppress(ProcessLookupError):
                os.killpg(worker.pid, signal.SIGKILL)
        else:
            pids = [worker.pid, *pool]
            self._signal(pids, signal.SIGSTOP)
            self._paused.append((now + self.pause, pids))
        self.kills[what] += 1
        self.may_have_hit += 1 if what == "child" else len(pool)

    @staticmethod
    def _signal(pids: list[int], number: int) -> None:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
