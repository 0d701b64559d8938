"""``pulse.jobs``: get, list, watch, result."""

from __future__ import annotations

import json
from threading import Thread

import pytest
from kombu.exceptions import ContentDisallowed
from support import wait_until

from denyut.errors import InvalidKey, UnknownJob
from denyut.states import Verdict
from denyut.tasks.result import encode_result


@pytest.mark.parametrize("job_id", [None, 7, "", "x" * 256, b"bytes"])
def test_what_cannot_be_an_id_is_refused(desk, job_id):
    for call in (desk.pulse.jobs.get, desk.pulse.jobs.result, lambda i: list(desk.pulse.jobs.watch(i))):
        with pytest.raises(InvalidKey, match="job id"):
            call(job_id)


def test_an_unknown_id_has_the_verdict_unknown(desk):
    assert desk.pulse.jobs.get("nobody").verdict == Verdict.UNKNOWN


def test_within_a_moment_a_job_is_read_once_unless_fresh(desk):
    desk.queued("j", 1)
    assert desk.pulse.jobs.get("j").state == "QUEUED"
    desk.running("j", 0)
    assert desk.pulse.jobs.get("j", fresh=True).state == "RUNNING"
    assert desk.pulse.jobs.get("j").state == "RUNNING"


def test_a_page_has_statuses_and_a_cursor(desk):
    for n in range(3):
        desk.running(f"j{n}", ago=n)
    page = desk.pulse.jobs.list(state="running", limit=2)
    assert [(status.id, status.verdict) for status in page.jobs] == [("j0", "running"), ("j1", "running")]
    rest = desk.pulse.jobs.list("RUNNING", None, 2, page.cursor)
    assert ([status.id for status in rest.jobs], rest.cursor) == (["j2"], None)
    assert desk.pulse.jobs.list(task="other").jobs == []


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"state": "BROKEN"}, "must be one of SCHEDULED"),
        ({"limit": 0}, "from 1 to 1000"),
        ({"limit": 1001}, "from 1 to 1000"),
        ({"cursor": "x"}, "must be the cursor"),
    ],
)
def test_a_list_says_what_is_wrong_with_its_arguments(desk, wrong, says):
    with pytest.raises(ValueError, match=says):
        desk.pulse.jobs.list(**wrong)


class Watcher:
    """Watches a job from a thread."""

    def __init__(self, jobs, job_id: str, **options) -> None:
        self.seen: list = []
        self.error: Exception | None = None
        self._thread = Thread(target=self._run, args=(jobs.watch(job_id, **options),))
        self._thread.start()

    def _run(self, statuses) -> None:
        try:
            self.seen.extend(iter(statuses))
        except UnknownJob as exc:
            self.error = exc

    def wait_for(self, count: int) -> None:
        wait_until(lambda: len(self.seen) >= count, what=f"{count} statuses")

    def end(self) -> list:
        self._thread.join(10)
        assert not self._thread.is_alive()
        return self.seen


def test_watching_tells_each_change_once_and_ends_with_the_job(desk):
    desk.queued("j", 1, version=1)
    watcher = Watcher(desk.pulse.jobs, "j", every=0.01)
    watcher.wait_for(1)
    desk.running("j", 0, version=2)
    watcher.wait_for(2)
    desk.telemetry("j", stage="LOADING")
    watcher.wait_for(3)
    desk.telemetry("j", stage="LOADING", version=5, rss_mb="9")  # a beat that brings no news
    desk.telemetry("j", stage="LOADING", done="1", version=6)
    watcher.wait_for(4)
    desk.ended("j", 0, version=3)
    told = [(s.verdict, s.stage, s.telemetry and s.telemetry.done) for s in watcher.end()]
    assert told == [
        ("queued", "", None),
        ("running", "", None),
        ("running", "LOADING", None),
        ("running", "LOADING", 1.0),
        ("completed", "LOADING", 1.0),
    ]


def test_watching_a_job_that_has_ended_tells_that_and_is_over(desk):
    desk.ended("j", 5)
    assert [status.verdict for status in desk.pulse.jobs.watch("j")] == ["completed"]


def test_watching_ends_at_its_timeout(desk):
    desk.queued("j", 100)
    assert [status.verdict for status in desk.pulse.jobs.watch("j", timeout=0.05)] == ["queued"]


def test_watching_an_unknown_job_is_an_error(desk):
    with pytest.raises(UnknownJob, match="'nobody'"):
        next(desk.pulse.jobs.watch("nobody"))


def test_watching_says_when_the_job_is_forgotten(desk):
    desk.queued("j", 1)
    watcher = Watcher(desk.pulse.jobs, "j", every=0.01)
    watcher.wait_for(1)
    desk.client.delete(desk.pulse.keys.job("j").record)
    watcher.end()
    assert isinstance(watcher.error, UnknownJob)


def test_the_result_of_a_completed_job_is_decoded(desk):
    desk.ended("j", 1, result=encode_result({"rows": [1, 2]}, "json"))
    assert desk.pulse.jobs.result("j") == {"rows": [1, 2]}


def test_a_job_without_a_result_says_what_it_is(desk):
    desk.running("j", 1)
    with pytest.raises(UnknownJob, match="it is running"):
        desk.pulse.jobs.result("j")


def test_a_result_is_decoded_only_by_serializers_that_the_app_accepts(make_desk):
    desk = make_desk(accept_content=["json"])
    desk.ended("j", 1, result=encode_result({1, 2}, "pickle"))
    with pytest.raises(ContentDisallowed):
        desk.pulse.jobs.result("j")


def test_a_real_job_can_be_followed_from_queue_to_queue(desk):
    """No hand-made keys: what the door writes is what jobs.get reads."""

    @desk.pulse.app.task(shared=False, name="t.real")
    def real() -> None: ...

    now, later = real.delay(), real.apply_async(countdown=60)
    assert desk.pulse.jobs.get(now.id).verdict == Verdict.QUEUED
    assert desk.pulse.jobs.get(later.id).verdict == Verdict.SCHEDULED
    assert {s.id for s in desk.pulse.jobs.list(task="t.real").jobs} == {now.id, later.id}
    assert json.dumps(desk.pulse.jobs.get(now.id).as_dict())


@pytest.fixture
def dead(desk):
    """A real job that failed, through the door and a run of its message."""

    @desk.pulse.app.task(shared=False, name="t.fails")
    def fails(x): ...

    from celery.exceptions import TimeLimitExceeded

    from denyut.states import State
    from denyut.tasks.cancel import end_from_outside

    def make():
        result = fails.delay(1)
        end_from_outside(
            desk.pulse, result.id, State.FAILED, TimeLimitExceeded(3), retention=None, running=True
        )
        return result.id

    return make


def test_a_dead_letter_is_listed_retried_and_purged(desk, dead):
    first, second = dead(), dead()
    page = desk.pulse.jobs.dead(task="t.fails")
    assert ([letter.id for letter in page.letters], page.cursor) == ([second, first], None)
    assert page.letters[0].reason == "over its hard time limit of 3 s"
    new = desk.pulse.jobs.retry(first)
    assert desk.pulse.jobs.get(new.id).record.retry_of == first
    assert desk.pulse.jobs.purge(second) == 1
    assert desk.pulse.jobs.dead().letters == []


def test_a_purge_must_say_what_it_is_to_purge(desk, dead):
    dead()
    with pytest.raises(ValueError, match="say which"):
        desk.pulse.jobs.purge()
    assert desk.pulse.jobs.purge(older_than=3600) == 0
    assert desk.pulse.jobs.purge(every=True) == 1


def test_a_page_of_dead_letters_has_a_size_that_is_checked(desk):
    with pytest.raises(ValueError, match="from 1 to 1000"):
        desk.pulse.jobs.dead(limit=0)
