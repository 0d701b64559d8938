"""The judge of a campaign: PostgreSQL says what was done, Redis what was promised."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from campaign.plan import PARTS, Plan

from denyut.states import TERMINAL, State
from denyut.tasks.record import FIELDS, JobRecord

_CHUNK = 500


@dataclass
class Evidence:
    """What there is to judge when a campaign is over.

    ``answers``: for each keyed number the ids that producers were given. ``parts`` and ``bodies``: ids by
    what they are to do. ``effects``: what was done, how often. ``noted``: the same by ``denyut_effects``.
    ``results``: Celery's result states by id.
    """

    plan: Plan
    answers: dict[int, set[str]]
    parts: dict[str, str]
    bodies: dict[str, str]
    effects: Counter[str]
    noted: int
    records: dict[str, JobRecord]
    results: dict[str, str]
    #: For each job that lost a worker: how long each loss was unnoticed (s, from the last sign of life).
    crash_events: dict[str, list[float]]
    left_in_indexes: int
    max_crashes: int
    may_have_hit: int


@dataclass
class Verdict:
    """What came out. A campaign is good if there are no violations."""

    violations: list[str] = field(default_factory=list)
    dead: list[str] = field(default_factory=list)
    accepted: int = 0
    effects: int = 0


def judge(found: Evidence) -> Verdict:
    """Compare what was promised with what was done."""
    verdict = Verdict()
    wrong = verdict.violations
    _judge_keyed(found, wrong)
    _judge_links(found, wrong)
    _judge_chords(found, wrong)
    _judge_dead(found, wrong)
    _judge_ends(found, wrong)
    wrong += [f"{what} was done {times} times" for what, times in found.effects.items() if times > 1]
    verdict.dead = [job_id for job_id, r in found.records.items() if r.state == State.DEAD]
    verdict.effects = found.effects.total()
    verdict.accepted = len(found.records) - _failed_bodies(found)
    if verdict.effects + len(verdict.dead) != verdict.accepted:
        wrong.append(
            f"{verdict.effects} effects + {len(verdict.dead)} dead letters are not {verdict.accepted} jobs"
        )
    if verdict.effects != found.noted:
        wrong.append(f"{verdict.effects} effects, but denyut_effects has {found.noted} rows")
    return verdict


def _judge_keyed(found: Evidence, wrong: list[str]) -> None:
    for n in found.plan.jobs:
        ids = sorted(found.answers.get(n, set()))
        dead = [job_id for job_id in ids if (r := found.records.get(job_id)) and r.state == State.DEAD]
        others = [job_id for job_id in ids if job_id not in dead]
        # A dead job gives its key up: whoever asks for it later makes a new job.
        if not ids or len(others) > 1:
            wrong.append(f"key n{n} has {len(ids)} jobs: {ids}, of which are dead: {dead}")
        for job_id in others or dead[:1]:
            _judge_one(found, f"job:{n}", job_id, wrong)


def _judge_one(found: Evidence, what: str, job_id: str, wrong: list[str]) -> None:
    record = found.records.get(job_id)
    done = found.effects[what]
    if record is None:
        wrong.append(f"{what}: job {job_id} has no record")
    elif record.state == State.DEAD and done:
        wrong.append(f"{what}: job {job_id} is dead and took effect")
    elif record.state == State.COMPLETED and not done:
        wrong.append(f"{what}: job {job_id} is completed and took no effect")
    elif record.state not in (State.DEAD, State.COMPLETED):
        wrong.append(f"{what}: job {job_id} is {record.state} ({record.error}), effects: {done}")


def _judge_links(found: Evidence, wrong: list[str]) -> None:
    """A link runs exactly if its job took effect; ids of links are Denyut's, so they are counted."""
    linked = [n for n, job in found.plan.jobs.items() if job.kind == "linked"]
    expected = sum(bool(found.effects[f"job:{n}"]) for n in linked)
    done = sum(bool(found.effects[f"link:{n}"]) for n in linked)
    follows = [r for r in found.records.values() if r.task.endswith(".follow")]
    dead = sum(r.state == State.DEAD for r in follows)
    if len(follows) != expected:
        wrong.append(f"{expected} links were to be sent, there are {len(follows)}")
    if done + dead != expected:
        missed = [n for n in linked if found.effects[f"job:{n}"] and not found.effects[f"link:{n}"]]
        wrong.append(f"of {expected} links {done} took effect and {dead} are dead; without: {missed[:10]}")


def _judge_chords(found: Evidence, wrong: list[str]) -> None:
    for what, job_id in found.parts.items():
        _judge_one(found, what, job_id, wrong)
    for n in found.plan.chords:
        parts = [found.records.get(found.parts[f"part:{n}:{i}"]) for i in range(PARTS)]
        body, done = found.records.get(found.bodies[f"chord:{n}"]), found.effects[f"chord:{n}"]
        if any(part is not None and part.state == State.DEAD for part in parts):
            if done:
                wrong.append(f"chord:{n} took effect, though a part of it is dead")
        elif body is None:
            wrong.append(f"chord:{n}: its body was never sent")
        else:
            _judge_one(found, f"chord:{n}", found.bodies[f"chord:{n}"], wrong)


def _judge_dead(found: Evidence, wrong: list[str]) -> None:
    budget = found.max_crashes + 1
    for n, job in found.plan.jobs.items():
        for job_id in found.answers.get(n, ()):
            record = found.records.get(job_id)
            if job.kind == "poison" and record is not None and record.crashes != budget:
                wrong.append(f"poison {n}: job {job_id} is {record.state} after {record.crashes} crashes")
    for job_id, record in found.records.items():
        if record.state != State.DEAD:
            continue
        crashed = len(found.crash_events.get(job_id, ()))
        if record.crashes < budget or crashed != record.crashes or (record.error or ("",))[0] != "JobDead":
            wrong.append(
                f"dead letter {job_id}: its reason is not true: {record.error}, crashes {record.crashes}, "
                f"of which its story tells {crashed}"
            )
    crashes = sum(record.crashes for record in found.records.values())
    if crashes > found.may_have_hit:
        wrong.append(f"{crashes} crashes were counted, but at most {found.may_have_hit} jobs were hit")


def _judge_ends(found: Evidence, wrong: list[str]) -> None:
    for job_id, record in found.records.items():
        if record.state not in TERMINAL or not record.settled:
            wrong.append(f"job {job_id} ({record.task}) is left {record.state}, settled: {record.settled}")
    if found.left_in_indexes:
        wrong.append(f"{found.left_in_indexes} entries are left in the indexes")
    wanted = {State.COMPLETED: "SUCCESS", State.DEAD: "FAILURE"}
    known = [job_id for ids in found.answers.values() for job_id in ids]
    for job_id in [*known, *found.parts.values(), *found.bodies.values()]:
        record, state = found.records.get(job_id), found.results.get(job_id, "PENDING")
        expected = wanted.get(record.state, "?") if record is not None else "FAILURE"  # an unsent body
        if state != expected:
            wrong.append(f"job {job_id}: its result is {state}, not {expected}")


def _failed_bodies(found: Evidence) -> int:
    """Bodies that were sent never take part in the count; all records but these are accepted jobs."""
    return sum(1 for r in found.records.values() if r.state not in (State.DEAD, State.COMPLETED))


def read_records(client: Any, prefix: str) -> dict[str, JobRecord]:
    """Read every record that there is."""
    names = [
        name
        for name in client.scan_iter(match=f"{prefix}:{{*}}:job:*", count=5000)
        if not name.decode().split(":job:", 1)[1].startswith(("alive:", "telemetry:", "events:"))
    ]
    found: dict[str, JobRecord] = {}
    for begin in range(0, len(names), _CHUNK):
        pipe = client.pipeline(transaction=False)
        chunk = names[begin : begin + _CHUNK]
        for name in chunk:
            pipe.hmget(name, *FIELDS)
        for name, values in zip(chunk, pipe.execute(), strict=True):
            job_id = name.decode().split(":job:", 1)[1]
            record = JobRecord.from_redis(job_id, values)
            if record is not None and ".median" not in record.task:
                found[job_id] = record
    return found
