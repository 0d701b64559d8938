"""What must hold after every single script, whoever called it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from model.faults import Violation
from model.seen import Seen, SeenJob, SeenPart

from denyut.states import LIVE, TERMINAL, State
from denyut.tasks.claim import us

if TYPE_CHECKING:
    from model.oracle import Oracle, View

_WAITING = (State.SCHEDULED, State.RETRYING)
_UNPUBLISHED = "unpublished"  # how a reservation that was taken back is counted


def check(oracle: Oracle, seen: Seen) -> None:
    """Check everything.

    Raises:
        Violation: saying what does not hold.
    """
    for job_id, view in oracle.jobs.items():
        number = oracle.keys.partition_of(job_id)
        job, part = seen.job(job_id), seen.parts[number]
        _record_says_what_happened(job_id, view, job)
        _nothing_goes_back(job_id, view, job, oracle.seen.job(job_id))
        _is_watched(job_id, view, part)
        _is_indexed_with_cause(job_id, view, part, job, seen.clock - us(oracle.settings.retention))
    for part in seen.parts:
        _accepted_is_ended_plus_live(oracle, seen, part)
    _entries(oracle, seen)
    _one_job_a_key(oracle)


def _record_says_what_happened(job_id: str, view: View, job: SeenJob) -> None:
    if view.state is None:
        if job.record:
            raise Violation(f"{job_id} has a record: {job.record}")
        return
    said = (
        job.record.get("state"),
        *(job.number(n) for n in ("gen", "attempt", "failures", "crashes", "fence")),
    )
    want = (view.state, view.gen, view.attempt, view.failures, view.crashes, view.fence)
    if said != want:
        raise Violation(f"{job_id} (state, gen, attempt, failures, crashes, fence) is {said}, must be {want}")
    if view.terminal and (job.record.get("settled") == "1") != view.settled:
        raise Violation(f"{job_id}: settled is {job.record.get('settled')}, must be {view.settled}")
    if view.state == State.COMPLETED and job.record.get("result", "") != view.result:
        raise Violation(
            f"{job_id}: result {job.record.get('result')!r} is not {view.result!r}, which was accepted"
        )
    if job.lease != view.lease:
        raise Violation(f"{job_id}: the lease is {job.lease!r}, must be {view.lease!r}")


def _nothing_goes_back(job_id: str, view: View, job: SeenJob, before: SeenJob) -> None:
    """Version, generation, attempt and fence only grow, as long as it is the same record."""
    version = job.number("version")
    if view.state is not None and version < view.version:
        raise Violation(f"{job_id}: version went from {view.version} to {version}")
    changed = job.record.get("state") != before.record.get("state")
    if changed and before.record and view.version == version and view.state is not None:
        raise Violation(f"{job_id}: the state changed, its version {version} did not")
    view.version = version


def _is_watched(job_id: str, view: View, part: SeenPart) -> None:
    """Whatever is not over stands in an index that somebody looks through: so nothing is lost."""
    where = None
    if view.state == State.RUNNING or (view.terminal and not view.settled):
        where = "leases"
    elif view.state in _WAITING:
        where = "schedule"
    elif view.state == State.QUEUED and not view.replaced:
        where = "held" if view.waits == view.gen else "queued"
    if where and job_id not in getattr(part, where):
        raise Violation(
            f"{job_id} is {view.state} (settled: {view.settled}) and not in {where}: it would be lost"
        )


def _is_indexed_with_cause(job_id: str, view: View, part: SeenPart, job: SeenJob, forgotten: int) -> None:
    causes = {
        "leases": view.state == State.RUNNING or (view.terminal and not view.settled),
        "schedule": view.state in _WAITING,
        "queued": view.state == State.QUEUED and not view.replaced and view.waits != view.gen,
        "held": view.state == State.QUEUED,
        # An id may come again after its retention, before the index is trimmed.
        "dead": view.letter,
        "done": part.done.get(job_id, 0) <= forgotten or (view.terminal and view.settled),
    }
    for index, cause in causes.items():
        if job_id in getattr(part, index) and not cause:
            raise Violation(f"{job_id} is {view.state} (settled: {view.settled}) and still in {index}")
    if view.letter and job_id not in part.dead:
        raise Violation(f"{job_id} is a dead letter, and not in the list of them")
    if job.number("finished_at") > forgotten and job_id not in part.done and view.settled:
        raise Violation(f"{job_id} has ended and is not in done")


def _accepted_is_ended_plus_live(oracle: Oracle, seen: Seen, part: SeenPart) -> None:
    here = [j for j in oracle.jobs if seen.parts[oracle.keys.partition_of(j)] is part]
    live = sum(oracle.jobs[job_id].state in LIVE for job_id in here)
    accepted = part.counted("enqueued", "adopted")
    ended = part.counted(_UNPUBLISHED, *(state.lower() for state in TERMINAL))
    if accepted != ended + live:
        raise Violation(f"accepted {accepted}, but {ended} ended and {live} are live")
    if part.counted("dead_now") != len(part.dead):
        raise Violation(f"{len(part.dead)} dead letters are counted as {part.counted('dead_now')}")


def _entries(oracle: Oracle, seen: Seen) -> None:
    for digest in oracle.digests:
        entry, want = seen.entries.get(digest, {}), oracle.entries.get(digest)
        said = (entry.get("job"), entry.get("fp")) if entry else None
        if said != ((want.job, want.fp) if want else None):
            raise Violation(f"the key {digest[:6]} is held by {said}, must be {want}")


def _one_job_a_key(oracle: Oracle) -> None:
    """Of the live jobs of one key, at most one is no follower and no conflict."""
    holders: dict[str, str] = {}
    for job_id, view in oracle.jobs.items():
        if oracle.histories[job_id].data_lost:
            continue  # the key's entry may be gone, and the job not
        if view.state in LIVE and view.digest and not view.follows and not view.conflict:
            if view.digest in holders:
                raise Violation(f"{holders[view.digest]} and {job_id} live under one key")
            holders[view.digest] = job_id
