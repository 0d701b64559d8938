"""The whole story of a job: what happened, how it stands, and what will happen next."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from celery.backends.base import DisabledBackend
from celery.states import PENDING

from denyut.errors import StoreUnavailable
from denyut.monitoring.audit import read_entries
from denyut.monitoring.outlook import Waiting, outlook
from denyut.monitoring.sentences import sentence, who
from denyut.monitoring.status import read_statuses
from denyut.monitoring.text import age, clean, time_text
from denyut.monitoring.workers import live_workers
from denyut.states import Verdict
from denyut.tasks.history import job_events

if TYPE_CHECKING:
    from collections.abc import Sequence

    from denyut.app import Denyut
    from denyut.monitoring.status import Status
    from denyut.tasks.history import JobEvent
    from denyut.tasks.saving.audit import AuditEntry

__all__ = ["Story", "tell_story"]

#: Most actions by hand that are told of one job; `denyut audit --job ID` has all.
_ENTRIES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What is known of a job. ``next`` says what will happen, in words; ``reason`` why a budget is spent.

    ``verdict`` is that of the status, and ``gone`` where there is no record but Celery still has a result.
    """

    id: str
    events: list[JobEvent]
    status: Status
    verdict: Verdict
    reason: str
    next: str
    #: What was done to it by hand, oldest first; None: the job store could not be asked.
    audit: Sequence[AuditEntry] | None = ()

    def lines(self) -> list[str]:
        """Return it as lines of text: one for each event, then the verdict, then what is next."""
        now = self.status.now_us
        owners = {e.fence: who(e.by, e.pid) for e in self.events if e.kind == "claimed"}
        told = [f"{time_text(e.at)}  {age(e.at, now):>12}  {sentence(e, owners)}" for e in self.events]
        why = f": {clean(self.reason)}" if self.reason else ""
        told += ["by hand: the job store could not be asked"] if self.audit is None else []
        told += [f"{time_text(e.at)}  {age(e.at, now):>12}  {_by_hand(e)}" for e in self.audit or ()]
        return [*told, f"verdict: {self.verdict}{why}", f"next: {clean(self.next)}"]

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain data, for JSON. Each event has its sentence, too."""
        owners = {e.fence: who(e.by, e.pid) for e in self.events if e.kind == "claimed"}
        return {
            "id": self.id,
            "verdict": str(self.verdict),
            "reason": self.reason,
            "next": self.next,
            "events": [{**asdict(e), "text": sentence(e, owners)} for e in self.events],
            "status": self.status.as_dict(),
            "audit": None if self.audit is None else [entry.as_dict() for entry in self.audit],
        }


def tell_story(pulse: Denyut, job_id: str) -> Story:
    """Read and tell the story of ``job_id``.

    Raises:
        redis.exceptions.RedisError: if it cannot be read.
    """
    (status,) = read_statuses(pulse, [job_id])
    events = job_events(pulse, job_id)
    verdict, reason = status.verdict, ""
    if status.record is None:
        verdict, coming = _no_record(pulse, status)
    else:
        coming = outlook(status, _waiting(pulse, job_id), pulse.settings)
        reason = status.record.reason or ""
    return Story(
        id=job_id,
        events=events,
        status=status,
        verdict=verdict,
        reason=reason,
        next=coming,
        audit=_audit(pulse, job_id),
    )


def _audit(pulse: Denyut, job_id: str) -> list[AuditEntry] | None:
    if not pulse.keys.stored:
        return []
    try:
        return read_entries(pulse, job_id=job_id, limit=_ENTRIES).entries[::-1]
    except StoreUnavailable:
        return None


def _by_hand(entry: AuditEntry) -> str:
    moved = f" ({entry.before or 'no state'} -> {entry.after})" if entry.after != entry.before else ""
    why = f": {entry.reason}" if entry.reason else ""
    return clean(f"by hand: {entry.action} by {entry.actor}, {entry.outcome}{moved}{why}")


def _waiting(pulse: Denyut, job_id: str) -> Waiting:
    client, keys = pulse.store.client, pulse.keys
    part = keys.partition(keys.partition_of(job_id))
    pipe = client.pipeline(transaction=False)
    for index in (part.queued, part.held, part.schedule, part.dead):
        pipe.zscore(index, job_id)
    pipe.hmget(keys.job(job_id).record, "waits", "gen")
    pipe.pttl(keys.job(job_id).record)
    *scores, (waits, gen), left = pipe.execute()
    queued, held, scheduled, dead = (None if score is None else int(score) for score in scores)
    return Waiting(
        queued=queued,
        held=held,
        scheduled=scheduled,
        dead=dead,
        turn=waits is not None and waits == gen,
        workers=len(live_workers(pulse, client)),
        left=left / 1000 if left >= 0 else None,
    )


def _no_record(pulse: Denyut, status: Status) -> tuple[Verdict, str]:
    if status.gone is not None:
        return Verdict.GONE, f"nothing: {status.gone}"
    result = _celery_state(pulse, status.id)
    if result != PENDING:
        return Verdict.GONE, (
            f"nothing: there is no record any more, only Celery's result, which is {result}. "
            "Its retention is over, or Redis has lost its data"
        )
    if status.marked_us is None:
        return Verdict.UNKNOWN, (
            "nothing is known of such a job, and no job was ever kept in its part of Redis "
            "(or Redis has lost its data)"
        )
    since = time_text(status.marked_us)
    return Verdict.UNKNOWN, (
        "nothing is known of such a job. Either there was none; or it ended and its retention is over "
        f"(denyut_retention={pulse.settings.retention:g}); or a client without Denyut sent it and no "
        f"worker has received it yet; or it was before {since}, when its part of Redis was first used"
    )


def _celery_state(pulse: Denyut, job_id: str) -> str:
    backend = pulse.app.backend
    return PENDING if isinstance(backend, DisabledBackend) else str(backend.get_state(job_id))
