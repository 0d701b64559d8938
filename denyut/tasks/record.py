"""The job record as the rest of the code sees it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from denyut.states import State

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["FIELDS", "JobRecord"]

#: The fields of the record Hash that make up a :class:`JobRecord`, in the order they are read.
FIELDS = (
    "task", "queue", "state", "gen", "attempt", "failures", "crashes", "fence", "version", "owner", "pid",
    "key", "digest", "follows", "conflict", "queued_at", "due", "started_at", "finished_at", "crashed_at",
    "recovered_us", "settled", "error", "traceback", "checkpoint",
    "budget", "reason", "retry_of", "retried_as", "cancel", "after",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """A snapshot of one record. Times are microseconds of Redis' clock, None if not yet."""

    id: str
    task: str
    queue: str
    state: State
    generation: int
    attempt: int
    failures: int
    crashes: int
    fence: int
    version: int
    owner: str | None = None
    pid: int | None = None
    key: str | None = None
    digest: str | None = None
    follows: str | None = None
    conflict: str | None = None
    queued_at: int | None = None
    due: int | None = None
    started_at: int | None = None
    finished_at: int | None = None
    crashed_at: int | None = None
    recovered_us: int | None = None
    settled: bool = False
    error: tuple[str, str] | None = None
    traceback: str | None = None
    checkpoint: Any = None
    budget: str | None = None
    reason: str | None = None
    retry_of: str | None = None
    retried_as: str | None = None
    #: Of one with ``follows``: how it hears of the other's end, if it then runs itself (``key``, ``look``).
    after: str | None = None
    #: Who has cancelled it, and why: of a RUNNING job, that it was told to stop.
    cancel: str | None = None

    @classmethod
    def from_redis(cls, job_id: str, values: list[bytes | None]) -> JobRecord | None:
        """Build a record from the reply of ``HMGET record *FIELDS``; None if there is no record."""
        raw = {f: v.decode("utf-8", "replace") for f, v in zip(FIELDS, values, strict=True) if v is not None}
        if "state" not in raw:
            return None
        return cls._from_text(job_id, raw)

    @classmethod
    def _from_text(cls, job_id: str, raw: Mapping[str, str]) -> JobRecord:
        def number(name: str) -> int | None:
            return int(raw[name]) if raw.get(name) else None

        error = json.loads(raw["error"]) if raw.get("error") else None
        return cls(
            id=job_id,
            task=raw.get("task", ""),
            queue=raw.get("queue", ""),
            state=State(raw["state"]),
            generation=number("gen") or 0,
            attempt=number("attempt") or 0,
            failures=number("failures") or 0,
            crashes=number("crashes") or 0,
            fence=number("fence") or 0,
            version=number("version") or 0,
            owner=raw.get("owner") or None,
            pid=number("pid"),
            key=raw.get("key") or None,
            digest=raw.get("digest") or None,
            follows=raw.get("follows") or None,
            conflict=raw.get("conflict") or None,
            queued_at=number("queued_at"),
            due=number("due"),
            started_at=number("started_at"),
            finished_at=number("finished_at"),
            crashed_at=number("crashed_at"),
            recovered_us=number("recovered_us"),
            settled=raw.get("settled") == "1",
            error=(error[0], error[1]) if error else None,
            traceback=raw.get("traceback") or None,
            checkpoint=json.loads(raw["checkpoint"]) if raw.get("checkpoint") else None,
            budget=raw.get("budget") or None,
            reason=raw.get("reason") or None,
            retry_of=raw.get("retry_of") or None,
            retried_as=raw.get("retried_as") or None,
            after=raw.get("after") or None,
            cancel=json.loads(raw["cancel"])[1] if raw.get("cancel") else None,
        )
