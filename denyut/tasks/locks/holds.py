"""A lock that is held: noted for the heartbeat of its job, or kept by this process itself."""

from __future__ import annotations

from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from denyut.errors import InvalidLock
from denyut.tasks.locks.places import PLACES

if TYPE_CHECKING:
    from denyut.tasks.locks.keeper import Keeper
    from denyut.tasks.locks.steps import Held
    from denyut.tasks.slot import Slot
    from denyut.tasks.slots import SlotBlock

__all__ = ["Hold", "JobHold", "OwnHold"]


_choosing = Lock()


class Hold(Protocol):
    """What a :class:`~denyut.tasks.locks.lock.Lock` asks of its hold. None of it is I/O."""

    @property
    def held(self) -> Held:
        """The lock, token and fence, and when Redis last said that it is its owner's."""

    @property
    def lost(self) -> bool:
        """Whether whoever renews it was told that it is lost."""

    @property
    def age(self) -> float:
        """Seconds since Redis was asked when it last said that it is its owner's."""

    def begin(self, held: Held) -> None:
        """Hold ``held`` from now on, or with what is new of it."""

    def end(self) -> None:
        """Renew it no more. May be called twice."""


class JobHold:
    """A lock of a running job, renewed by the heartbeat of its worker.

    Args:
        block: the worker's slots.
        slot: of the job.
        job_fence: of its attempt.

    Raises:
        InvalidLock: if the job holds as many as it can.
    """

    def __init__(self, block: SlotBlock, slot: Slot, job_fence: int) -> None:
        with _choosing:  # threads of one job may do so at once
            free = (number for number in range(PLACES) if not slot.locks >> number & 1)
            number = next(free, None)
            if number is None:
                raise InvalidLock(
                    f"this job holds {PLACES} locks that are renewed, and can hold no more; release one, "
                    "or use renew=False"
                )
            self._bit = 1 << number
            slot.locks |= self._bit
        self._slot, self._job_fence = slot, job_fence
        self._place = block.lock_place(slot.index, number)
        self._held: Held | None = None

    @property
    def held(self) -> Held:
        """See ``Hold``."""
        assert self._held is not None
        return self._held._replace(answered=monotonic() - self.age)

    @property
    def lost(self) -> bool:
        """See ``Hold``."""
        return self._place.lost

    @property
    def age(self) -> float:
        """See ``Hold``."""
        return self._place.age

    def begin(self, held: Held) -> None:
        """See ``Hold``."""
        self._held = held
        self._place.fill(self._job_fence, held)

    def end(self) -> None:
        """See ``Hold``."""
        if self._bit:
            self._place.clear()
            with _choosing:
                self._slot.locks &= ~self._bit
            self._bit = 0


class OwnHold:
    """A lock of a process without a heartbeat: a thread of it renews it, or nobody.

    Args:
        keeper: renews it; None: nobody does.
    """

    def __init__(self, keeper: Keeper | None) -> None:
        self._keeper = keeper
        self._held: Held | None = None
        self.lost = False

    @property
    def held(self) -> Held:
        """See ``Hold``."""
        assert self._held is not None
        return self._held

    @property
    def age(self) -> float:
        """See ``Hold``."""
        return monotonic() - self.held.answered

    def begin(self, held: Held) -> None:
        """See ``Hold``."""
        self._held = held
        if self._keeper is not None:
            self._keeper.keep(self)

    def end(self) -> None:
        """See ``Hold``."""
        if self._keeper is not None:
            self._keeper.drop(self)

    def answer(self, fence: int, answered: float | None) -> None:
        """Take what Redis has said of the lock with ``fence``: when it was asked (s), None: it is lost."""
        if answered is None:
            self.lost = True
        elif self._held is not None and self._held.fence == fence:
            self._held = self._held._replace(answered=max(answered, self._held.answered))
