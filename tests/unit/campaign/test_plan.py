"""What a campaign sends."""

from __future__ import annotations

from campaign.plan import KINDS, PARTS, make_plan


def test_a_seed_gives_the_same_plan_and_another_gives_another():
    assert make_plan(1, 500) == make_plan(1, 500)
    assert make_plan(1, 500) != make_plan(2, 500)


def test_the_size_is_what_was_asked_for_and_every_kind_is_in_it():
    plan = make_plan(1, 1000)
    assert plan.size == 1000
    assert {job.kind for job in plan.jobs.values()} == set(KINDS)
    assert len(plan.chords) * PARTS == 99


def test_every_job_is_sent_by_somebody_and_a_fifth_by_both():
    plan = make_plan(1, 1000)
    first, second = (set(order) for order in plan.orders)
    assert first | second == set(plan.jobs)
    assert 0.15 < len(first & second) / len(plan.jobs) < 0.25
    assert len(first) == len(plan.orders[0]), "each once"
