"""Which jobs somebody wants to see in a list: the same filters for Redis and for the job store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from denyut.states import State

__all__ = ["Wanted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a job must be; None: anything.

    ``since`` and ``until`` are times of Redis' clock (us) of its place in the order, which is when it
    ended, began, was queued, or is due: from ``since`` on, and before ``until``.
    """

    state: State | None = None
    task: str | None = None
    key: str | None = None
    since: int | None = None
    until: int | None = None

    def fits(self, state: str, task: str, key: str) -> bool:
        """Whether a job in this state, of this task and with this key is one of them, whatever its time."""
        return (
            bool(state)
            and self.state in (None, state)
            and self.task in (None, task)
            and self.key in (None, key)
        )
