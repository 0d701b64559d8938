"""Dead letters: the jobs whose budget is spent, each with its reason and what every attempt died of."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from heapq import merge
from typing import TYPE_CHECKING, Any

from denyut.tasks.envelope import Envelope
from denyut.tasks.pages import StoredPlace, cursor_of, first_pages, parse_cursor, walk
from denyut.tasks.record import FIELDS, JobRecord
from denyut.tasks.saving.recall import recall
from denyut.tasks.saving.stored_places import StoredPlaces
from denyut.wanted import Wanted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from denyut.app import Denyut
    from denyut.tasks.pages import Place

__all__ = ["AttemptError", "DeadLetter", "find_dead", "is_dead", "read_letters"]

_ERROR = b"error:"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptError:
    """What one attempt died of. ``at`` is a time of Redis' clock (us)."""

    attempt: int
    type: str
    message: str
    traceback: str
    at: int
    owner: str
    pid: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A job that will not run again by itself.

    ``budget`` is ``failures`` or ``crashes``, ``reason`` says in words why it is spent. ``errors`` are
    of the last ten attempts, oldest first. ``args`` and ``kwargs`` are as the producer's Celery shows
    them (shortened); ``message`` says whether the message is kept, so that it can be retried.
    """

    record: JobRecord
    errors: tuple[AttemptError, ...]
    args: str
    kwargs: str
    message: bool

    @property
    def id(self) -> str:
        """The job."""
        return self.record.id

    @property
    def task(self) -> str:
        """The name of its task."""
        return self.record.task

    @property
    def at(self) -> int | None:
        """When its budget was spent (us)."""
        return self.record.finished_at

    @property
    def budget(self) -> str:
        """Which budget is spent: ``failures`` or ``crashes``."""
        return self.record.budget or ""

    @property
    def reason(self) -> str:
        """Why, in words."""
        return self.record.reason or ""

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain data, for JSON."""
        head = {name: getattr(self, name) for name in ("id", "task", "budget", "reason", "at")}
        return {**head, **asdict(self)}


def find_dead(
    pulse: Denyut, *, task: str | None = None, limit: int = 100, cursor: str | None = None
) -> tuple[list[str], str | None]:
    """Return the ids of dead letters, newest first, and the cursor of what follows (None at the end).

    Redis keeps them all until they are purged; should it have lost one, the job store still knows it.

    Args:
        pulse: the app's Denyut.
        task: only those of this task.
        limit: most ids.
        cursor: where the last page ended.

    Raises:
        ValueError: if ``cursor`` is not one.
    """
    client, after, found = pulse.store.client, parse_cursor(cursor), list[str]()
    keys, size = [partition.dead for partition in pulse.keys.all_partitions()], limit + 1
    first = first_pages(client, keys, after, size)
    walks = [walk(client, key, page, size) for key, page in zip(keys, first, strict=True)]
    stored = StoredPlaces(pulse, Wanted(task=task), after, size, dead=True)
    for place in merge(*walks, stored, reverse=True):
        if len(found) == limit:
            return found, cursor_of(after)
        after = place
        if place.job_id not in found and _is_wanted(pulse, place, task):
            found.append(place.job_id)
    return found, None


def _is_wanted(pulse: Denyut, place: Place, task: str | None) -> bool:
    """Whether it is of that task; of what the store has, whether Redis knows nothing of it."""
    if not isinstance(place, StoredPlace) and task is None:
        return True
    found = pulse.store.client.hget(pulse.keys.job(place.job_id).record, "task")
    return found is None if isinstance(place, StoredPlace) else found == (task or "").encode()


def is_dead(pulse: Denyut, job_id: str) -> bool:
    """Whether ``job_id`` is in the list of dead letters."""
    index = pulse.keys.partition(pulse.keys.partition_of(job_id)).dead
    return pulse.store.client.zscore(index, job_id) is not None


def read_letters(pulse: Denyut, job_ids: Sequence[str]) -> list[DeadLetter]:
    """Return what is known of each of ``job_ids``; those of which nothing is known are left out."""
    pipe = pulse.store.client.pipeline(transaction=False)
    for job_id in job_ids:
        pipe.hgetall(pulse.keys.job(job_id).record)
    found = dict(zip(job_ids, pipe.execute(), strict=True))
    found |= recall(pulse, [job_id for job_id, raw in found.items() if not raw])
    letters = (_letter(job_id, raw) for job_id, raw in found.items())
    return [letter for letter in letters if letter is not None]


def _letter(job_id: str, raw: Mapping[bytes, bytes]) -> DeadLetter | None:
    record = JobRecord.from_redis(job_id, [raw.get(field.encode()) for field in FIELDS])
    if record is None:
        return None
    headers = _headers(raw.get(b"msg"))
    return DeadLetter(
        record=record,
        errors=tuple(_errors(record, raw)),
        args=str(headers.get("argsrepr") or ""),
        kwargs=str(headers.get("kwargsrepr") or ""),
        message=bool(raw.get(b"msg")),
    )


def _headers(message: bytes | None) -> Mapping[str, Any]:
    if not message:
        return {}
    try:
        return Envelope.load(message).headers
    except (ValueError, KeyError, TypeError):  # then there is nothing to show of it
        return {}


def _errors(record: JobRecord, raw: Mapping[bytes, bytes]) -> list[AttemptError]:
    kept = {int(name[len(_ERROR) :]): value for name, value in raw.items() if name.startswith(_ERROR)}
    errors = [_error(attempt, kept[attempt]) for attempt in sorted(kept)]
    if record.budget == "failures" and record.error is not None:
        kind, message = record.error
        last = AttemptError(
            attempt=record.attempt,
            type=kind,
            message=message,
            traceback=record.traceback or "",
            at=record.finished_at or 0,
            owner=record.owner or "",
            pid=record.pid,
        )
        errors = [error for error in errors if error.attempt != record.attempt] + [last]
    return errors


def _error(attempt: int, text: bytes) -> AttemptError:
    (kind, message), (traceback, at, owner, pid) = json.loads(text.decode("utf-8", "replace"))
    return AttemptError(
        attempt=attempt,
        type=kind,
        message=message,
        traceback=traceback,
        at=int(at),
        owner=owner,
        pid=int(pid) if pid else None,
    )
