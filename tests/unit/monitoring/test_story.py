"""The whole story: events, verdict, and what comes next; honest also of what is not known."""

from __future__ import annotations

import json

from denyut.states import Verdict


def test_a_story_has_a_line_for_each_event_then_the_verdict_and_what_is_next(desk):
    @desk.pulse.app.task(shared=False, name="t.noop")
    def noop(): ...

    job = noop.delay()
    first, verdict, coming = desk.pulse.jobs.explain(job.id).lines()
    assert first.split()[1].endswith("Z")
    assert "enqueued by" in first
    assert "ago" in first
    assert verdict == "verdict: queued"
    assert coming.startswith("next: it waits in queue")


def test_a_story_as_data_has_the_evidence_and_the_sentence_of_each_event(desk):
    desk.running("j", 3, owner="w@h|ab", pid=5)
    told = json.loads(json.dumps(desk.pulse.jobs.explain("j").as_dict()))
    assert (told["id"], told["verdict"]) == ("j", "running")
    claimed = told["events"][-1]
    assert (claimed["kind"], claimed["by"], claimed["pid"]) == ("claimed", "w@h|ab", 5)
    assert claimed["text"] == "attempt 1 began on w@h, pid 5 (generation 1, fence 7)"
    assert told["status"]["lease"]


def test_the_verdict_of_a_dead_letter_comes_with_its_reason(desk):
    desk.ended("j", 5, state="FAILED", budget="failures", reason="not retried: KeyError")
    assert "verdict: failed: not retried: KeyError" in desk.pulse.jobs.explain("j").lines()


def test_an_unknown_job_is_told_to_be_unknown_and_why_that_may_be(desk):
    story = desk.pulse.jobs.explain("nobody")
    assert (story.verdict, story.events) == (Verdict.UNKNOWN, [])
    assert "no job was ever kept" in story.next
    desk.client.set(desk.pulse.keys.partition(desk.pulse.keys.partition_of("nobody")).marker, desk.ago(60))
    story = desk.pulse.jobs.explain("nobody")
    assert "retention is over" in story.next
    assert "first used" in story.next


def test_a_job_of_which_only_celerys_result_is_left_is_gone(desk):
    desk.pulse.app.backend.store_result("j", 1, "SUCCESS")
    story = desk.pulse.jobs.explain("j")
    assert story.verdict == Verdict.GONE
    assert "only Celery's result, which is SUCCESS" in story.next


def test_an_app_without_results_is_no_hindrance(make_desk):
    desk = make_desk(result_backend=None)
    assert desk.pulse.jobs.explain("nobody").verdict == Verdict.UNKNOWN
