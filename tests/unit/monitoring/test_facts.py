"""A status in words."""

from __future__ import annotations

import json

import pytest

from denyut.monitoring.facts import facts, news, summary
from denyut.monitoring.status import read_statuses


def status(desk, job_id="j"):
    return read_statuses(desk.pulse, [job_id])[0]


def test_a_running_job_is_told_with_its_progress_and_beat(desk):
    desk.running("j", 10, owner="w@host|ab", pid=77, crashes=1, attempt=2, queued_at=desk.ago(7200))
    desk.telemetry(
        "j",
        done="12",
        total="30",
        progress="0.4",
        unit="steps",
        stage="WORK",
        rss_mb="50",
        beat_lag_ms="1500",
    )
    told = dict(facts(status(desk)))
    assert told["verdict"] == "running"
    assert told["progress"] == "12 of 30 steps (40%)"
    assert (told["stage"], told["worker"], told["pid"], told["crashes"]) == ("WORK", "w@host", 77, 1)
    assert told["memory"] == "50 MiB, at most 50"
    assert told["enqueued"] == "2.0 h ago"
    assert told["last beat"].endswith(" s ago, 1.5 s late")
    assert told["lease"].endswith(" s left")
    assert "failures" not in told, "nothing is told of what is not"


@pytest.mark.parametrize(
    ("told", "text"),
    [
        ({"done": "3"}, "3"),
        ({"done": "3", "unit": "rows"}, "3 rows"),
        ({"done": "1", "total": "8", "progress": "0.125"}, "1 of 8 (12%)"),
        ({"done": ""}, ""),
    ],
)
def test_progress_is_told_as_far_as_it_is_known(desk, told, text):
    desk.running("j", 1)
    desk.telemetry("j", **told)
    assert summary(status(desk))[4] == text


def test_a_completed_job_is_not_shown_as_half_done(desk):
    desk.ended("j", 1)
    desk.telemetry("j", done="22", total="30", progress="0.73")
    assert summary(status(desk))[4] == ""
    assert news(status(desk)).split() == ["completed", "attempt", "1"]


def test_a_failed_job_tells_how_far_it_got_and_why_in_one_line(desk):
    desk.ended("j", 1, state="FAILED", error=json.dumps(["ValueError", "no\ngood"]))
    desk.telemetry("j", done="22", total="30", progress="0.73", stage="LOAD")
    assert news(status(desk)) == "failed      attempt 1  22 of 30 (73%)  LOAD  ValueError: no good"
    assert dict(facts(status(desk)))["error"] == "ValueError: no\ngood"


def test_a_scheduled_job_tells_when_it_is_due(desk):
    desk.scheduled("j", due_in=300.5)
    assert dict(facts(status(desk)))["due"] == "in 5.0 min"


def test_a_recovered_job_tells_how_long_that_took(desk):
    desk.running("j", 1, recovered_us=6_200_000)
    assert dict(facts(status(desk)))["recovered"] == "6.20 s after its last sign of life"


def test_a_job_that_gave_up_tells_why_and_what_it_became(desk):
    desk.ended("j", 5, state="FAILED", budget="failures", reason="not retried: KeyError", retried_as="new")
    told = dict(facts(status(desk)))
    assert (told["gave up"], told["retried as"]) == ("not retried: KeyError", "new")
