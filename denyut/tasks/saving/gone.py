"""A job that was, and is not kept any more: how it ended, and until when it was known."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from denyut.states import State

__all__ = ["Gone"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """What is remembered of it. Times are microseconds of Redis' clock.

    ``state`` is its last one, ``finished_at`` when it came to that, ``gone_at`` when its retention ended.
    """

    state: State
    finished_at: int | None
    gone_at: int

    def __str__(self) -> str:
        return f"it was {self.state}, and its retention ended at {_text(self.gone_at)}"


def _text(at: int) -> str:
    return datetime.fromtimestamp(at / 1e6, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
