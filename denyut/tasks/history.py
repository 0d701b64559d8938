"""The story of a job: what its Stream tells, and what only its record knows, in one order of time.

An ordinary job has no Stream: then the record alone tells when it was enqueued, when its newest attempt
began, and how it ended. Refusals that came in storms are told one by one at first, then as a count.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from denyut.states import TERMINAL
from denyut.tasks.envelope import Envelope
from denyut.tasks.record import FIELDS, JobRecord
from denyut.tasks.saving.recall import recall, recall_story

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from denyut.app import Denyut

__all__ = ["JobEvent", "job_events"]

#: What may come in storms, and is counted in the record (denyut/lua/job.lua, ``often``).
_COUNTED = (
    *("duplicate", "conflict", "busy", "done", "stale", "lost", "published", "requeued", "waiting"),
)  # fmt: skip
_BEGINNINGS = {"enqueued", "adopted"}
_KNOWN = {"type", "fence", "attempt", "data", "gen", "by", "pid"}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvent:
    """One thing that happened to a job. ``at`` is a time of Redis' clock (us).

    ``kind`` is a word such as ``claimed``, ``crashed``, ``busy``; ``by`` and ``pid`` say who did it: a
    worker node, or a producer as Celery names it; empty and None if it is not known. ``attempt``,
    ``fence`` and ``generation`` are 0 where there is none. ``data`` and ``more`` are the evidence.
    ``count`` is more than 1 for refusals that are told together, at the time of the last.
    """

    at: int
    kind: str
    attempt: int = 0
    fence: int = 0
    generation: int = 0
    by: str = ""
    pid: int | None = None
    data: str = ""
    count: int = 1
    more: Mapping[str, str] = field(default_factory=dict)


def job_events(pulse: Denyut, job_id: str) -> list[JobEvent]:
    """Return all that is known to have happened to the job ``job_id``, oldest first; empty if nothing is.

    Raises:
        redis.exceptions.RedisError: if it cannot be read.
    """
    job = pulse.keys.job(job_id)
    names = [*FIELDS, "enq", "origin", "msg"]
    names += [f"{part}:{kind}" for kind in _COUNTED for part in ("n", "last")]
    pipe = pulse.store.client.pipeline(transaction=False)
    pipe.hmget(job.record, names)
    pipe.xrange(job.events)
    values, entries = pipe.execute()
    if not any(values):  # Redis has forgotten it; the job store may not have
        fields = recall(pulse, [job_id]).get(job_id, {})
        values = [fields.get(name.encode()) for name in names]
        entries = recall_story(pulse, job_id) if fields else []
    raw = {name: value for name, value in zip(names, values, strict=True) if value is not None}
    told = [_of_entry(entry_id, fields) for entry_id, fields in entries]
    record = JobRecord.from_redis(job_id, list(values[: len(FIELDS)]))
    if record is not None:
        told += _counted(raw, Counter(event.kind for event in told))
        told = [*_of_record(record, raw, {event.kind for event in told}, told), *told]
    # The Stream's times are whole milliseconds; what the record tells comes first within one.
    return sorted(told, key=lambda event: event.at // 1000)


def _of_entry(entry_id: bytes, fields: Mapping[bytes, bytes]) -> JobEvent:
    entry = {name.decode(): value.decode("utf-8", "replace") for name, value in fields.items()}
    return JobEvent(
        at=int(entry_id.partition(b"-")[0]) * 1000,
        kind=entry.get("type", ""),
        attempt=_int(entry.get("attempt")),
        fence=_int(entry.get("fence")),
        generation=_int(entry.get("gen")),
        by=entry.get("by", ""),
        pid=_int(entry.get("pid")) or None,
        data=entry.get("data", ""),
        more={name: value for name, value in entry.items() if name not in _KNOWN},
    )


def _of_record(
    record: JobRecord, raw: Mapping[str, bytes], kinds: set[str], told: Sequence[JobEvent]
) -> Iterator[JobEvent]:
    """Yield what the Stream, if there is one, does not tell: beginning, newest attempt, end."""
    if record.queued_at is not None and not kinds & _BEGINNINGS:
        kind = "enqueued" if "enq" in raw else "adopted"
        yield JobEvent(at=record.queued_at, kind=kind, by=_origin(raw))
    begun = any(event.kind == "claimed" and event.attempt == record.attempt for event in told)
    if record.attempt and record.started_at is not None and not begun:
        yield _by_attempt(record, record.started_at, "claimed")
    if record.state in TERMINAL and record.finished_at is not None:
        kind = record.state.lower()
        if kind not in kinds:
            error = json.dumps(record.error) if record.error else ""
            yield _by_attempt(record, record.finished_at, kind, data=error)


def _by_attempt(record: JobRecord, at: int, kind: str, *, data: str = "") -> JobEvent:
    return JobEvent(
        at=at,
        kind=kind,
        attempt=record.attempt,
        fence=record.fence,
        generation=record.generation,
        by=record.owner or "",
        pid=record.pid,
        data=data,
    )


def _counted(raw: Mapping[str, bytes], told: Counter[str]) -> Iterator[JobEvent]:
    """Yield one event for all refusals of a kind that have no entry of their own."""
    for kind in _COUNTED:
        silent = _int(raw.get(f"n:{kind}")) - told[kind]
        if silent <= 0 or f"last:{kind}" not in raw:
            continue
        at, fence, attempt, data, by, pid, gen = json.loads(raw[f"last:{kind}"].decode("utf-8", "replace"))
        yield JobEvent(
            at=int(at),
            kind=kind,
            attempt=_int(attempt),
            fence=_int(fence),
            generation=_int(gen),
            by=by,
            pid=_int(pid) or None,
            data=data,
            count=silent,
        )


def _origin(raw: Mapping[str, bytes]) -> str:
    if raw.get("origin"):
        return raw["origin"].decode("utf-8", "replace")
    try:
        return str(Envelope.load(raw["msg"]).headers.get("origin") or "")
    except (KeyError, ValueError, TypeError):  # no message is kept, or it cannot be read
        return ""


def _int(value: Any) -> int:
    try:
        return int(value or 0)
    except ValueError:
        return 0
