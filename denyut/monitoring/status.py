"""The status of a job: record, telemetry, lease and verdict of one moment, in one round trip."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from denyut.monitoring.telemetry import Telemetry
from denyut.monitoring.verdict import conclude, poll_after
from denyut.scripts import Script, run_all
from denyut.states import TERMINAL, State, Verdict
from denyut.tasks.record import FIELDS, JobRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from denyut.app import Denyut

__all__ = ["Status", "read_statuses"]

STATUS = Script("denyut.monitoring", "status")


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What is known of a job at ``now_us``, and what it means.

    ``lease_ttl_ms`` is 0 without a lease. ``poll_after_ms`` says when to look again; 0: never.
    ``telemetry`` is of the newest attempt, None before its first beat.
    """

    id: str
    verdict: Verdict
    record: JobRecord | None
    telemetry: Telemetry | None
    lease: str | None
    lease_ttl_ms: int
    alive: bool
    now_us: int
    poll_after_ms: int

    @property
    def state(self) -> State | None:
        """The state in the record."""
        return self.record.state if self.record else None

    @property
    def terminal(self) -> bool:
        """Whether it has ended."""
        return self.record is not None and self.record.state in TERMINAL

    @property
    def age_s(self) -> float | None:
        """Seconds since it was enqueued."""
        queued = self.record.queued_at if self.record else None
        return None if queued is None else (self.now_us - queued) / 1e6

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain data, for JSON."""
        return {
            "id": self.id,
            "verdict": str(self.verdict),
            "record": asdict(self.record) if self.record else None,
            "telemetry": asdict(self.telemetry) if self.telemetry else None,
            "lease": self.lease,
            "lease_ttl_ms": self.lease_ttl_ms,
            "alive": self.alive,
            "now_us": self.now_us,
            "poll_after_ms": self.poll_after_ms,
        }


def read_statuses(pulse: Denyut, job_ids: Sequence[str]) -> list[Status]:
    """Return the status of each job, all in one pipelined round trip."""
    calls = []
    for job_id in job_ids:
        keys = pulse.keys.job(job_id)
        calls.append(STATUS.with_([keys.record, keys.telemetry, keys.lease, keys.alive], FIELDS))
    replies = run_all(pulse.store.client, calls)
    return [_status(pulse, job_id, reply) for job_id, reply in zip(job_ids, replies, strict=True)]


def _status(pulse: Denyut, job_id: str, reply: list[Any]) -> Status:
    values, flat, lease, ttl, alive, now = reply
    record = JobRecord.from_redis(job_id, values)
    pairs = [item.decode("utf-8", "replace") for item in flat]
    telemetry = Telemetry.from_redis(dict(zip(pairs[::2], pairs[1::2], strict=True)))
    if telemetry is not None and (
        record is None or (telemetry.fence < record.fence and not record.finished_at)
    ):
        telemetry = None  # of an earlier attempt: it says nothing of this one
    now_us = int(now)
    settings = pulse.settings
    return Status(
        id=job_id,
        verdict=conclude(
            record,
            telemetry,
            leased=bool(lease),
            alive=bool(alive),
            now_us=now_us,
            beat_interval=settings.beat_interval,
            stall_after=settings.stall_after,
        ),
        record=record,
        telemetry=telemetry,
        lease=lease.decode() or None,
        lease_ttl_ms=max(int(ttl), 0),
        alive=bool(alive),
        now_us=now_us,
        poll_after_ms=poll_after(record, now_us),
    )
