"""What the job store knows of jobs that Redis has forgotten: read in bounded time, nothing if it is down."""

from __future__ import annotations

from typing import TYPE_CHECKING

from denyut.tasks.saving.snapshot import from_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from denyut.app import Denyut

__all__ = ["recall", "recall_story"]

Fields = dict[bytes, bytes]


def recall(pulse: Denyut, job_ids: Sequence[str]) -> dict[str, Fields]:
    """Return the records of those of the jobs that the store has, as Redis had them.

    Without a store, or while it cannot be read, there are none. (The log and ``doctor`` say that it is down.)
    """
    if not job_ids or not pulse.keys.stored:
        return {}

    from denyut.database.read import read_records  # SQLAlchemy is for those who have a store

    def read() -> dict[str, tuple[int, str]]:
        with pulse.database.begin() as connection:
            return read_records(connection, pulse.settings.prefix, job_ids)

    found = pulse.saving.ask(read) or {}
    return {job_id: from_text(text) for job_id, (_, text) in found.items()}


def recall_story(pulse: Denyut, job_id: str) -> list[tuple[bytes, Fields]]:
    """Return the entries of a job's Stream that the store has, oldest first, as XRANGE gave them."""
    if not pulse.keys.stored:
        return []

    from denyut.database.read import read_events

    def read() -> list[tuple[int, int, str]]:
        with pulse.database.begin() as connection:
            return read_events(connection, pulse.settings.prefix, job_id)

    return [(f"{ms}-{seq}".encode(), from_text(text)) for ms, seq, text in pulse.saving.ask(read) or []]
