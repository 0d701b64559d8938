"""Stopping the bodies that were told to stop: a signal at every look, and a kill when the grace is over.

The flag in the slot says what is meant (see :mod:`denyut.tasks.interrupt`); the signal only wakes the
body. A body that swallows it, or sits in C code that looks for no signals, is killed with its process:
its job ends as what its record says, cancelled or another attempt's.
"""

from __future__ import annotations

import logging
import os
from signal import SIGKILL
from time import monotonic
from typing import TYPE_CHECKING

from denyut.tasks.slot import CANCEL, LOST
from denyut.tasks.slots import SlotState

if TYPE_CHECKING:
    from collections.abc import Callable
    from signal import Signals

    from denyut.signals.beat import Beat
    from denyut.tasks.slots import SlotBlock

__all__ = ["Enforcer"]

logger = logging.getLogger(__name__)


class Enforcer:
    """Used by the heartbeat's thread alone.

    Args:
        block: the worker's slots.
        signal: what wakes a body.
        grace: seconds from the first signal to the kill.
        spared: the process that is never killed; None: this one, which is the whole worker.
    """

    def __init__(self, block: SlotBlock, signal: Signals, grace: float, *, spared: int | None = None) -> None:
        self._block = block
        self._signal = signal
        self._grace = grace
        self._spared = os.getpid() if spared is None else spared
        self._since: dict[tuple[int, int], float] = {}  # (slot, fence) -> time of the first signal
        self._told: set[tuple[int, int]] = set()
        self._killed: set[tuple[int, int]] = set()

    def follow(self, beat: Beat) -> None:
        """Take up the jobs that ``beat`` found flagged, or has flagged."""
        flagged = [job for job in beat.jobs if job.flags & (LOST | CANCEL)]
        self._told.update((job.index, job.fence) for job in (*flagged, *beat.lost, *beat.cancelled))

    def take(self, job: SlotState, *, at_once: bool) -> None:
        """Take up ``job``, which is flagged; with ``at_once`` there is no grace."""
        place = (job.index, job.fence)
        self._told.add(place)
        if at_once:
            self._since[place] = float("-inf")

    def look(self, send: Callable[[int, int], None]) -> None:
        """Signal every body that was told to stop and still runs; kill those whose grace is over.

        A slot that has gone on to another job is let go: that one is not meant.

        Args:
            send: sends a signal to one of the worker's processes: ``send(pid, signal)``.
        """
        for place in list(self._told):
            job = self._block.read(place[0])
            if isinstance(job, SlotState) and job.fence == place[1]:
                if job.in_body:
                    self._stop(place, job, send)
            elif job is None or isinstance(job, SlotState):
                self._told.discard(place)
                self._killed.discard(place)
                self._since.pop(place, None)

    def _stop(self, place: tuple[int, int], job: SlotState, send: Callable[[int, int], None]) -> None:
        since = self._since.setdefault(place, monotonic())
        if monotonic() - since < self._grace or job.pid == self._spared:
            send(job.pid, self._signal)
            return
        if place not in self._killed:
            self._killed.add(place)
            why = "lost its lease" if job.flags & LOST else "was cancelled"
            grace = f" and did not stop within {self._grace:g} s" if since > float("-inf") else ""
            logger.warning("job %s: it %s%s: its process %d is killed", job.job_id, why, grace, job.pid)
        send(job.pid, SIGKILL)
