"""A job of which Redis has no record: was there ever one?"""

from __future__ import annotations

import pytest
from sqlalchemy import event

from denyut.database.engine import Database
from denyut.database.prune import prune
from denyut.errors import JobGone, UnknownJob
from denyut.states import Verdict
from denyut.tasks.missing import no_such_job
from denyut.tasks.saving.applier import Applier


@pytest.fixture
def stored(make_bench, tmp_path):
    bench = make_bench(denyut_database_url=f"sqlite:///{tmp_path}/jobs.db")
    bench.pulse.database.create()
    return bench


@pytest.fixture
def work(stored):
    @stored.task(name="t.work")
    def work() -> int:
        return 3

    return work


@pytest.fixture
def forget(stored):
    """Let Redis forget jobs, when the store has them."""

    def forget(*job_ids: str) -> None:
        applier = Applier(stored.pulse)
        applier.step()
        applier.close()
        for job_id in job_ids:
            keys = stored.pulse.keys.job(job_id)
            stored.pulse.store.client.delete(keys.record, keys.telemetry, keys.events)

    return forget


@pytest.fixture
def gone(stored, work, forget):
    """A job that the store has deleted, too."""
    job = work.delay()
    stored.drain()
    forget(job.id)
    now = stored.pulse.store.now_us()
    with stored.pulse.database.begin() as connection:
        assert prune(connection, stored.pulse.settings.prefix, 2 * now, now_us=now) == 1
    return job.id


ACTS = {
    "nothing was cancelled": lambda jobs, job_id: jobs.cancel(job_id),
    "nothing was released": lambda jobs, job_id: jobs.release(job_id),
    "nothing was retried": lambda jobs, job_id: jobs.retry(job_id),
    "there is no result any more": lambda jobs, job_id: jobs.result(job_id),
    "": lambda jobs, job_id: next(jobs.watch(job_id)),
}


@pytest.mark.parametrize("so", ACTS)
def test_whatever_is_done_to_a_job_that_is_gone_says_how_it_ended(stored, gone, so):
    with pytest.raises(JobGone, match=f"is gone: it was COMPLETED, and its retention ended at .*Z.*{so}"):
        ACTS[so](stored.pulse.jobs, gone)


@pytest.mark.parametrize("so", ACTS)
def test_an_id_that_never_was_is_not_called_gone(stored, so):
    with pytest.raises(UnknownJob) as caught:
        ACTS[so](stored.pulse.jobs, "nobody")
    assert type(caught.value) is UnknownJob
    assert "retention" not in str(caught.value)


def test_its_status_and_its_story_say_gone_and_that_it_has_ended(stored, gone):
    status = stored.pulse.jobs.get(gone)
    assert (status.verdict, status.terminal, status.poll_after_ms) == (Verdict.GONE, True, 0)
    assert status.gone.state == "COMPLETED"
    assert status.as_dict()["gone"]["gone_at"] == status.gone.gone_at >= status.gone.finished_at
    story = stored.pulse.jobs.explain(gone)
    assert (story.verdict, "it was COMPLETED" in story.next) == (Verdict.GONE, True)
    assert stored.pulse.jobs.get("nobody").verdict == Verdict.UNKNOWN


def test_a_job_that_only_the_store_has_can_not_be_cancelled_any_more_and_is_not_unknown(stored, work, forget):
    job = work.delay()
    stored.drain()
    forget(job.id)
    with pytest.raises(JobGone, match=r"it was COMPLETED.*nothing was cancelled"):
        stored.pulse.jobs.cancel(job.id)
    assert stored.pulse.jobs.get(job.id).verdict == Verdict.COMPLETED


def test_a_job_that_redis_has_lost_while_it_waited_is_said_to_come_back(stored, work, forget):
    job = work.delay()
    forget(job.id)
    with pytest.raises(UnknownJob, match="is QUEUED in the job store, and Redis has lost it"):
        stored.pulse.jobs.cancel(job.id)


def test_without_a_store_nobody_can_tell(bench):
    assert "or its retention is over: so" in str(no_such_job(bench.pulse, "j", "so"))


def test_polling_an_unknown_id_asks_the_database_once(stored, gone):
    asked = []
    event.listen(stored.pulse.database.engine, "before_cursor_execute", lambda *args: asked.append(args[2]))
    for _ in range(20):
        assert stored.pulse.jobs.get("nobody", fresh=True).verdict == Verdict.UNKNOWN
        assert stored.pulse.jobs.get(gone, fresh=True).verdict == Verdict.GONE
    assert len([statement for statement in asked if "denyut_jobs" in statement]) == 2


def test_what_this_process_enqueues_is_not_called_unknown(stored, work, forget):
    assert stored.pulse.jobs.get("mine").verdict == Verdict.UNKNOWN
    work.apply_async(task_id="mine")
    stored.drain()
    forget("mine")
    assert stored.pulse.jobs.get("mine", fresh=True).verdict == Verdict.COMPLETED


def test_an_id_that_no_column_takes_is_unknown_and_the_store_is_not_called_down(stored, postgres):
    stored.pulse.database.close()
    stored.pulse.database = Database(postgres, timeout=5.0)
    stored.pulse.database.create()
    assert stored.pulse.jobs.get("a\0b").verdict == Verdict.UNKNOWN
    assert stored.pulse.saving.breaker.error == ""


def test_while_the_store_is_down_a_job_is_unknown_and_that_is_not_remembered(stored, gone):
    stored.pulse.saving.breaker.failed(OSError("away"))
    assert stored.pulse.jobs.get(gone, fresh=True).verdict == Verdict.UNKNOWN
    stored.pulse.saving.breaker.worked()
    assert stored.pulse.jobs.get(gone, fresh=True).verdict == Verdict.GONE
