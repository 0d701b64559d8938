"""What the store is to have of a job: its record, whole, and the entries of its story that it has not yet."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from denyut.states import TERMINAL, State

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from denyut.app import Denyut

__all__ = ["Snapshot", "as_column", "from_text", "read_snapshots", "to_text"]

#: Longest text of a column that an index has: PostgreSQL takes about 2,700 bytes in one entry.
_LONGEST = 500


@dataclass(slots=True)
class Snapshot:
    """One job at one version. ``row`` is None if Redis has no record of it (any more)."""

    id: str
    version: str = ""
    row: dict[str, Any] | None = None
    events: list[dict[str, Any]] = field(default_factory=list)
    #: Last entry of its Stream that is among ``events``; empty if there is none.
    copied: str = ""


def read_snapshots(pulse: Denyut, client: Any, job_ids: Sequence[str]) -> list[Snapshot]:
    """Read the records of ``job_ids`` in one round trip, and what is new of their stories in another.

    Raises:
        redis.exceptions.RedisError: nothing is known.
    """
    keys = [pulse.keys.job(job_id) for job_id in job_ids]
    pipe = client.pipeline(transaction=False)
    for job in keys:
        pipe.hgetall(job.record)
        pipe.exists(job.events)
    replies = pipe.execute()
    found, told = [], []
    for job_id, job, raw, story in zip(job_ids, keys, replies[::2], replies[1::2], strict=True):
        found.append(_snapshot(pulse.settings.prefix, job_id, raw))
        if story and raw:
            told.append((found[-1], job.events, raw.get(b"copied", b"").decode()))
    for _, events, copied in told:
        pipe.xrange(events, min=f"({copied}" if copied else "-")
    for (snapshot, *_), entries in zip(told, pipe.execute() if told else [], strict=True):
        _add_events(pulse.settings.prefix, snapshot, entries)
    return found


def to_text(fields: Mapping[bytes, bytes]) -> str:
    """Return a Hash as JSON text in ASCII: every database takes it, and each byte comes back."""
    return json.dumps({_exact(name): _exact(value) for name, value in fields.items()})


def from_text(text: str) -> dict[bytes, bytes]:
    """Return the Hash of which :func:`to_text` made ``text``."""
    return {
        name.encode("utf-8", "surrogateescape"): value.encode("utf-8", "surrogateescape")
        for name, value in json.loads(text).items()
    }


def _snapshot(prefix: str, job_id: str, raw: dict[bytes, bytes]) -> Snapshot:
    if b"state" not in raw:
        return Snapshot(job_id)
    fields = {name.decode("utf-8", "replace"): value for name, value in raw.items() if name != b"copied"}

    def number(name: str) -> int | None:
        return int(fields[name]) if fields.get(name) else None

    def text(name: str) -> str | None:
        return as_column(fields[name].decode("utf-8", "replace")) if fields.get(name) else None

    row = {
        "prefix": prefix,
        "id": as_column(job_id),
        "version": number("version") or 0,
        "state": fields["state"].decode(),
        "settled": fields.get("settled") == b"1",
        "task": text("task") or "",
        "queue": text("queue") or "",
        **{name: text(name) for name in ("key", "digest", "budget")},
        **{name: number(name) for name in ("queued_at", "due", "finished_at", "forget_at")},
        "at": _place(State(fields["state"].decode()), number),
        "record": to_text(raw),
    }
    return Snapshot(job_id, fields.get("version", b"").decode(), row)


def _add_events(prefix: str, snapshot: Snapshot, entries: Sequence[tuple[bytes, dict[bytes, bytes]]]) -> None:
    for entry_id, fields in entries:
        ms, _, seq = entry_id.decode().partition("-")
        kind = as_column(fields.get(b"type", b"").decode("utf-8", "replace"))
        event = {"prefix": prefix, "job_id": as_column(snapshot.id), "ms": int(ms), "seq": int(seq)}
        snapshot.events.append({**event, "type": kind, "fields": to_text(fields)})
        snapshot.copied = entry_id.decode()


def _exact(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _place(state: State, number: Callable[[str], int | None]) -> int:
    """Return where the job stands in a list (us): when it ended, began, was queued, or is due."""
    if state in TERMINAL:
        return number("finished_at") or 0
    if state == State.RUNNING:
        return number("started_at") or 0
    if state == State.QUEUED:
        return max(number(name) or 0 for name in ("queued_at", "due", "crashed_at"))
    due = number("due") or 0
    return min(due, number("expires") or due)


def as_column(text: str) -> str:
    """Return ``text`` so that a column takes it: no NUL, nothing that UTF-8 cannot hold, not too long."""
    mended = text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode()
    return mended if len(mended) <= _LONGEST else mended[:_LONGEST]
