"""The status of a job: record, telemetry, lease and verdict of one moment, in one round trip."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from denyut.monitoring.telemetry import Telemetry
from denyut.monitoring.verdict import conclude, poll_after
from denyut.scripts import Script, run_all
from denyut.states import TERMINAL, State, Verdict
from denyut.tasks.record import FIELDS, JobRecord
from denyut.tasks.saving.recall import recall_all

if TYPE_CHECKING:
    from collections.abc import Sequence

    from denyut.app import Denyut
    from denyut.tasks.saving.gone import Gone

__all__ = ["Status", "read_statuses"]

STATUS = Script("denyut.monitoring", "status")


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What is known of a job at ``now_us``, and what it means. Times are microseconds of Redis' clock.

    ``lease`` is ``OWNER#FENCE``, and ``lease_ttl_ms`` 0 without one. ``telemetry`` is of the newest
    attempt, None before its first beat. ``poll_after_ms`` says when to look again; 0: never.
    ``marked_us`` is when the job's partition was first used: None means that no job was ever kept
    there, or that Redis lost its data. ``gone`` is what is remembered of a job whose retention is over,
    also in the job store.
    """

    id: str
    verdict: Verdict
    record: JobRecord | None
    telemetry: Telemetry | None
    lease: str | None
    lease_ttl_ms: int
    alive: bool
    marked_us: int | None
    now_us: int
    poll_after_ms: int
    gone: Gone | None = None

    @property
    def state(self) -> State | None:
        """The state in the record."""
        return self.record.state if self.record else None

    @property
    def terminal(self) -> bool:
        """Whether it has ended."""
        return self.gone is not None or (self.record is not None and self.record.state in TERMINAL)

    @property
    def progress(self) -> float | None:
        """The part that is done, from 0 to 1 if the task reports it so; 1 when it has completed."""
        if self.state == State.COMPLETED:
            return 1.0
        return self.telemetry.progress if self.telemetry else None

    @property
    def stage(self) -> str:
        """The stage that the task last reported; empty if none."""
        return self.telemetry.stage if self.telemetry else ""

    @property
    def attempt(self) -> int:
        """The number of the newest attempt; 0 before the first."""
        return self.record.attempt if self.record else 0

    @property
    def crashes(self) -> int:
        """How many workers it has lost."""
        return self.record.crashes if self.record else 0

    @property
    def error(self) -> tuple[str, str] | None:
        """Type and message of the error that it ended with, or that the last retry was for."""
        return self.record.error if self.record else None

    @property
    def result_available(self) -> bool:
        """Whether ``pulse.jobs.result(id)`` has something to return."""
        return self.state == State.COMPLETED

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
            "state": str(self.state) if self.state else None,
            "progress": self.progress,
            "stage": self.stage,
            "record": asdict(self.record) if self.record else None,
            "telemetry": asdict(self.telemetry) if self.telemetry else None,
            "lease": self.lease,
            "lease_ttl_ms": self.lease_ttl_ms,
            "alive": self.alive,
            "marked_us": self.marked_us,
            "now_us": self.now_us,
            "poll_after_ms": self.poll_after_ms,
            "gone": asdict(self.gone) if self.gone else None,
        }


def read_statuses(pulse: Denyut, job_ids: Sequence[str]) -> list[Status]:
    """Return the status of each job, in one round trip; the job store knows what Redis has forgotten."""
    calls = []
    for job_id in job_ids:
        keys = pulse.keys.job(job_id)
        marker = pulse.keys.partition(keys.partition).marker
        calls.append(STATUS.with_([keys.record, keys.telemetry, keys.lease, keys.alive, marker], FIELDS))
    replies = run_all(pulse.store.client, calls)
    known = recall_all(pulse, [i for i, reply in zip(job_ids, replies, strict=True) if not any(reply[0])])
    for job_id, reply in zip(job_ids, replies, strict=True):
        if fields := known.records.get(job_id):
            reply[0] = [fields.get(field.encode()) for field in FIELDS]
    return [
        _status(pulse, job_id, reply, known.gone.get(job_id))
        for job_id, reply in zip(job_ids, replies, strict=True)
    ]


def _status(pulse: Denyut, job_id: str, reply: list[Any], gone: Gone | None) -> Status:
    values, flat, lease, ttl, alive, marker, now = reply
    record = JobRecord.from_redis(job_id, values)
    telemetry = _telemetry(record, flat)
    settings, now_us = pulse.settings, int(now)
    return Status(
        id=job_id,
        verdict=Verdict.GONE
        if gone is not None
        else conclude(
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
        marked_us=int(marker) if marker else None,
        now_us=now_us,
        poll_after_ms=0 if gone is not None else poll_after(record, now_us),
        gone=gone,
    )


def _telemetry(record: JobRecord | None, flat: list[bytes]) -> Telemetry | None:
    """Return the telemetry of the record's newest attempt; that of an earlier one says nothing of it."""
    pairs = [item.decode("utf-8", "replace") for item in flat]
    telemetry = Telemetry.from_redis(dict(zip(pairs[::2], pairs[1::2], strict=True)))
    if telemetry is None or record is None:
        return None
    # Ending a job from outside raises the fence: its last attempt is still the newest.
    newest = telemetry.fence >= record.fence or record.state in TERMINAL
    return telemetry if newest else None
