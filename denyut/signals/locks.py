"""The locks that running jobs hold, renewed by their heartbeat in its round trip, if there are any."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from denyut.tasks.locks.keeper import tell
from denyut.tasks.locks.places import PLACES
from denyut.tasks.locks.steps import release_call, renew_calls
from denyut.tasks.slots import LOST, UNLOCKED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from denyut.config import Settings
    from denyut.keys import Keys
    from denyut.scripts import Call
    from denyut.tasks.locks.places import Place
    from denyut.tasks.locks.steps import Held
    from denyut.tasks.slots import SlotBlock, SlotState

__all__ = ["JobLocks"]


class JobLocks:
    """Used by the heartbeat's thread alone.

    Args:
        settings: of the app.
        keys: of the app.
        block: the worker's slots.
    """

    def __init__(self, settings: Settings, keys: Keys, block: SlotBlock) -> None:
        self._ttl, self._keys, self._block = settings.lease_ttl, keys, block
        self._asked: list[Sequence[Held]] = []
        self._places: dict[str, tuple[SlotState, Place]] = {}  # by token

    def calls(self, jobs: Iterable[SlotState]) -> list[Call]:
        """Return the calls that renew the locks of ``jobs``. A job that has lost its lease keeps none."""
        holding = [job for job in jobs if job.locks and not job.flags & LOST]
        found = [(job, place, held) for job in holding for place, held in self._of(job)]
        if not found:
            return []
        self._places = {held.token: (job, place) for job, place, held in found}
        calls = renew_calls(self._keys, [held for *_, held in found], lease_ttl=self._ttl, now=monotonic())
        self._asked = [chunk for chunk, _ in calls]
        return [call for _, call in calls]

    def answer(self, replies: Sequence[Sequence[bytes]], sent: float) -> None:
        """Tell the jobs what Redis has said to the last :meth:`calls`, which were sent at ``sent``."""
        for chunk, reply in zip(self._asked if replies else (), replies, strict=True):
            for held, word in tell(chunk, reply):
                job, place = self._places[held.token]
                place.answer(held.fence, None if word == "LOST" else sent)
                if word == "LOST":
                    self._block.flag(job.index, job.fence, UNLOCKED)

    def left_by(self, job: SlotState) -> list[Call]:
        """Return the calls that release the locks of ``job``, whose process is dead."""
        held = [each for _, each in self._of(job)] if job.locks else []
        return [release_call(self._keys, each, lease_ttl=self._ttl, now=monotonic()) for each in held]

    def _of(self, job: SlotState) -> Iterator[tuple[Place, Held]]:
        for number in range(PLACES):
            if job.locks >> number & 1:
                place = self._block.lock_place(job.index, number)
                held = place.read(job.fence, job.pid, job.job_id)
                if held is not None:
                    yield place, held
