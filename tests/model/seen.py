"""What stands in Redis, as the invariants read it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class SeenJob:
    """One job: its record, lease and telemetry; empty if there is none."""

    record: dict[str, str]
    lease: str
    telemetry: dict[str, str]

    def number(self, name: str) -> int:
        return int(self.record.get(name) or 0)


@dataclass(frozen=True)
class SeenPart:
    """The indexes (id -> score) and counters of one partition."""

    leases: dict[str, int]
    schedule: dict[str, int]
    queued: dict[str, int]
    held: dict[str, int]
    done: dict[str, int]
    dead: dict[str, int]
    counters: dict[str, int]
    marker: str

    def counted(self, *what: str) -> int:
        """Return the sum of counters, over all tasks."""
        return sum(many for name, many in self.counters.items() if name.partition(":")[0] in what)


@dataclass(frozen=True)
class Seen:
    """Everything, at one moment."""

    clock: int = 0
    jobs: dict[str, SeenJob] = field(default_factory=dict)
    parts: list[SeenPart] = field(default_factory=list)
    entries: dict[str, dict[str, str]] = field(default_factory=dict)

    @classmethod
    def parse(cls, raw: dict[str, Any], jobs: Sequence[str], digests: Sequence[str]) -> Seen:
        """Read the reply of ``audit.lua``."""
        return cls(
            clock=int(raw["clock"]),
            jobs={
                job_id: SeenJob(_hash(each[0]), each[1], _hash(each[2]))
                for job_id, each in zip(jobs, raw["jobs"] or [], strict=True)
            },
            parts=[_part(each) for each in raw["parts"]],
            entries={digest: _hash(each) for digest, each in zip(digests, raw["entries"] or [], strict=True)},
        )

    def job(self, job_id: str) -> SeenJob:
        return self.jobs.get(job_id) or SeenJob({}, "", {})


def _hash(flat: Any) -> dict[str, str]:
    return dict(zip(flat[::2], flat[1::2], strict=True)) if flat else {}


def _part(raw: Sequence[Any]) -> SeenPart:
    zsets = [{name: round(float(score)) for name, score in _hash(flat).items()} for flat in raw[:6]]
    return SeenPart(*zsets, counters={k: int(v) for k, v in _hash(raw[6]).items()}, marker=raw[7])
