"""Periodic tasks of Celery beat: jobs as any other, and one job a period where two beats run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from celery.beat import BeatLazyFunc, Scheduler
from celery.schedules import schedule

from denyut.states import State


def beat(bench, **entry):
    """Return a beat with one entry, as ``celery beat`` makes it from ``beat_schedule``."""
    scheduler = Scheduler(bench.app, lazy=True)
    scheduler.add(name="each-hour", task="t.report", schedule=schedule(timedelta(hours=1)), **entry)
    return scheduler


@pytest.fixture
def reports(bench):
    made = []

    @bench.task(name="t.report", idempotency_key="report:{hour}")
    def report(hour):
        made.append(hour)

    bench.app.finalize()
    return made


def send(scheduler):
    """Let the entry be due now, and send it."""
    (entry,) = scheduler.schedule.values()
    scheduler.apply_entry(entry)


def test_two_beats_make_one_job_a_period_where_the_entry_names_its_period(bench, reports):
    now = ["2026-01-01T10", "2026-01-01T10", "2026-01-01T11", "2026-01-01T11"]
    beats = [beat(bench, args=(BeatLazyFunc(lambda: now[0]),)) for _ in range(2)]
    for _ in range(2):
        for each in beats:
            send(each)
            now.pop(0)
    bench.drain()
    assert reports == ["2026-01-01T10", "2026-01-01T11"]
    assert bench.counters()["duplicate"] == 2


def test_what_was_missed_while_no_beat_was_up_is_sent_once_as_celery_does(bench, reports):
    hours_ago = datetime.now(UTC) - timedelta(hours=5)
    scheduler = beat(bench, args=("now",), last_run_at=hours_ago)
    while scheduler.tick() == 0:
        continue
    bench.drain()
    assert reports == ["now"]


def test_an_entry_may_be_for_later_and_may_expire(bench, reports):
    send(beat(bench, args=("later",), options={"countdown": 60, "expires": 90}))
    (job,) = bench.pulse.jobs.list(state="SCHEDULED").jobs
    assert job.record.state == State.SCHEDULED
    assert bench.messages() == []
