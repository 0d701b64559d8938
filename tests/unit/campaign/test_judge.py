"""The judge of a campaign: it must see what it is there for."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from campaign.judge import Evidence, judge
from campaign.plan import Job, Plan

from denyut.states import State
from denyut.tasks.record import JobRecord


def record(job_id, state=State.COMPLETED, crashes=0, task="apps.campaign.plain", settled=True):
    return JobRecord(
        id=job_id,
        task=task,
        queue="q",
        state=state,
        generation=1,
        attempt=1,
        failures=0,
        crashes=crashes,
        fence=1,
        version=1,
        settled=settled,
        error=("JobDead", "crash budget spent") if state == State.DEAD else None,
    )


@pytest.fixture
def found():
    """A linked job, a poison job that is dead, and a chord: all as it should be."""
    plan = Plan({0: Job(0, "linked"), 1: Job(1, "poison")}, [0], [[0, 1], [0]])
    parts = {f"part:0:{i}": f"p{i}" for i in range(3)}
    records = [record("a"), record("l", task="apps.campaign.follow"), record("x", State.DEAD, 4), record("b")]
    records += [record(job_id) for job_id in parts.values()]
    return Evidence(
        plan=plan,
        answers={0: {"a"}, 1: {"x"}},
        parts=parts,
        bodies={"chord:0": "b"},
        effects=Counter(["job:0", "link:0", "chord:0", *parts]),
        noted=6,
        records={r.id: r for r in records},
        results={"a": "SUCCESS", "x": "FAILURE", "b": "SUCCESS", **dict.fromkeys(parts.values(), "SUCCESS")},
        crash_events={"x": [0.1] * 4},
        left_in_indexes=0,
        max_crashes=3,
        may_have_hit=4,
    )


def test_a_campaign_in_which_everything_is_right_has_no_violations(found):
    verdict = judge(found)
    assert verdict.violations == []
    assert (verdict.accepted, verdict.effects, verdict.dead) == (7, 6, ["x"])


def test_a_dead_job_gives_its_key_up_to_another(found):
    found.answers[1].add("y")
    found.records["y"] = record("y", State.DEAD, 4)
    found.results["y"] = "FAILURE"
    found.crash_events["y"] = [0.1] * 4
    assert judge(replace(found, may_have_hit=8)).violations == []


def with_record(found, changed):
    return replace(found, records=found.records | {changed.id: changed})


def without(mapping, key):
    return {k: v for k, v in mapping.items() if k != key}


BROKEN = {
    "job:0 was done 2 times": lambda f: replace(f, effects=f.effects + Counter(["job:0"])),
    "took no effect": lambda f: replace(f, effects=f.effects - Counter(["job:0"])),
    "is dead and took effect": lambda f: replace(f, effects=f.effects + Counter(["job:1"])),
    "effects + 1 dead letters": lambda f: replace(f, effects=f.effects - Counter(["part:0:1"])),
    "has no record": lambda f: replace(f, records=without(f.records, "a")),
    "has 2 jobs": lambda f: replace(f, answers=f.answers | {0: {"a", "l"}}),
    "has 0 jobs": lambda f: replace(f, answers=without(f.answers, 0)),
    "links were to be sent": lambda f: replace(f, records=without(f.records, "l")),
    "links 0 took effect": lambda f: replace(f, effects=f.effects - Counter(["link:0"])),
    "its body was never sent": lambda f: replace(f, records=without(f.records, "b")),
    "though a part of it is dead": lambda f: with_record(f, record("p1", State.DEAD, 4)),
    "poison 1": lambda f: with_record(f, record("x", State.DEAD, 5)),
    "its reason is not true": lambda f: replace(f, crash_events={"x": [0.1] * 3}),
    "at most 3 jobs were hit": lambda f: replace(f, may_have_hit=3),
    "is left RUNNING": lambda f: with_record(f, record("a", State.RUNNING)),
    "settled: False": lambda f: with_record(f, record("a", settled=False)),
    "its result is PENDING": lambda f: replace(f, results=without(f.results, "a")),
    "its result is SUCCESS, not FAILURE": lambda f: replace(f, results=f.results | {"x": "SUCCESS"}),
    "left in the indexes": lambda f: replace(f, left_in_indexes=1),
    "denyut_effects has 5 rows": lambda f: replace(f, noted=5),
}


@pytest.mark.parametrize("what", BROKEN)
def test_every_kind_of_violation_is_seen_and_named(found, what):
    assert [text for text in judge(BROKEN[what](found)).violations if what in text]
