"""What the job store knows of jobs that Redis has forgotten: read in bounded time, nothing if it is down."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from denyut.states import State
from denyut.tasks.saving.gone import Gone
from denyut.tasks.saving.snapshot import as_column, from_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from denyut.app import Denyut

__all__ = ["Recalled", "recall", "recall_all", "recall_story"]

Fields = dict[bytes, bytes]


class Recalled(NamedTuple):
    """The records that the store has, and what it remembers of jobs that it has deleted, by id."""

    records: dict[str, Fields]
    gone: dict[str, Gone]


def recall(pulse: Denyut, job_ids: Sequence[str]) -> dict[str, Fields]:
    """Return the records of those of the jobs that the store has, as Redis had them.

    Without a store, or while it cannot be read, there are none. (The log and ``doctor`` say that it is down.)
    """
    return recall_all(pulse, job_ids).records


def recall_all(pulse: Denyut, job_ids: Sequence[str]) -> Recalled:
    """Return what the store knows of jobs; it is not asked again for what it has just not known."""
    if not job_ids or not pulse.keys.stored:
        return Recalled({}, {})
    absent = pulse.saving.absent.known(job_ids)
    asked = [job_id for job_id in job_ids if job_id not in absent]
    found = _read(pulse, asked) if asked else Recalled({}, {})
    gone = {job_id: each for job_id, each in absent.items() if each is not None}
    return Recalled(found.records, {**gone, **found.gone})


def _read(pulse: Denyut, job_ids: Sequence[str]) -> Recalled:
    from denyut.database.read import read_gone, read_records  # SQLAlchemy is for those who have a store

    prefix, names = pulse.settings.prefix, {as_column(job_id): job_id for job_id in job_ids}

    def read() -> Recalled:
        with pulse.database.begin() as connection:
            rows = read_records(connection, prefix, list(names))
            rest = [name for name in names if name not in rows]
            gone = read_gone(connection, prefix, rest) if rest else {}
        records = {names[name]: from_text(text) for name, (_, text) in rows.items()}
        return Recalled(records, {names[name]: _gone(*row) for name, row in gone.items()})

    found: Recalled | None = pulse.saving.ask(read)
    if found is None:
        return Recalled({}, {})
    pulse.saving.absent.add({i: found.gone.get(i) for i in job_ids if i not in found.records})
    return found


def _gone(state: str, finished_at: int | None, gone_at: int) -> Gone:
    return Gone(state=State(state), finished_at=finished_at, gone_at=gone_at)


def recall_story(pulse: Denyut, job_id: str) -> list[tuple[bytes, Fields]]:
    """Return the entries of a job's Stream that the store has, oldest first, as XRANGE gave them."""
    if not pulse.keys.stored:
        return []

    from denyut.database.read import read_events

    def read() -> list[tuple[int, int, str]]:
        with pulse.database.begin() as connection:
            return read_events(connection, pulse.settings.prefix, job_id)

    return [(f"{ms}-{seq}".encode(), from_text(text)) for ms, seq, text in pulse.saving.ask(read) or []]
