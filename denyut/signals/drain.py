"""Which running jobs the worker is about to end, so that their end is nobody's crash."""

from __future__ import annotations

from threading import Condition
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from denyut.tasks.slots import SlotState

__all__ = ["Drain"]


class Drain:
    """What the heartbeat is to tell Redis with its next beat. Asked by any thread, or a signal handler.

    ``everything``: the whole worker ends.
    """

    def __init__(self) -> None:
        self.everything = False
        self._fences: set[int] = set()
        self._asked = self._begun = self._told = 0
        self._changed = Condition()

    @property
    def pending(self) -> bool:
        """Whether a beat is needed now."""
        return self._asked > self._begun

    def ask(self, fences: Iterable[int] = (), *, everything: bool = False) -> int:
        """Let Redis be told that the attempts with these fences, or all, are ended. Takes no lock.

        Returns:
            What to :meth:`wait` for.
        """
        self.everything = self.everything or everything
        self._fences |= set(fences)
        self._asked += 1
        return self._asked

    def begin(self, jobs: Iterable[SlotState]) -> Callable[[SlotState], bool]:
        """Before a beat with ``jobs``: return which of them to tell of. Forgets those that have ended."""
        self._begun = self._asked
        self._fences &= {job.fence for job in jobs}
        fences, everything = set(self._fences), self.everything
        return lambda job: everything or job.fence in fences

    def end(self) -> None:
        """After a beat that has reached Redis."""
        with self._changed:
            self._told = self._begun
            self._changed.notify_all()

    def wait(self, asked: int, seconds: float) -> bool:
        """Wait until Redis knows what was asked, at most ``seconds``; return whether it does."""
        with self._changed:
            return self._changed.wait_for(lambda: self._told >= asked, seconds)
