"""The running job from inside."""

from __future__ import annotations

import pytest
from support import DiedError

from denyut import current_job
from denyut.errors import JobCancelled, LeaseLost, NoCurrentJob
from denyut.tasks.run import JobRun, activate
from denyut.tasks.slots import CANCEL, LOST, SlotBlock


@pytest.fixture
def block():
    block = SlotBlock.create(4)
    yield block
    block.close()


@pytest.fixture
def run(block):
    slot = block.slot(0)
    slot.begin(job_id="j", task="t", partition=0, fence=7, attempt=1, owner="o")
    return JobRun(id="j", task="t", fence=7, slot=slot)


def test_outside_a_job_there_is_none_and_the_error_says_what_to_do():
    with pytest.raises(NoCurrentJob, match="Denyut"):
        current_job()


def test_inside_it_is_the_one_that_runs(run):
    with activate(run):
        assert current_job() is run


def test_progress_stage_and_unit_reach_the_slot(run, block):
    run.progress(3, 10, unit="rows")
    run.stage("COMPUTING")
    state = block.read(0)
    assert (state.done, state.total, state.unit, state.stage) == (3, 10, "rows", "COMPUTING")


def test_track_yields_every_item_and_tells_the_progress_after_it(run, block):
    tracked = run.track(["a", "b"], start=2)
    seen = [(item, block.read(0).done, block.read(0).total) for item in tracked]
    assert seen == [("a", 2, 4), ("b", 3, 4)]
    assert block.read(0).done == 4


@pytest.mark.parametrize(("flag", "error"), [(LOST, LeaseLost), (CANCEL, JobCancelled)])
def test_progress_stage_and_check_raise_when_the_heartbeat_says_so(run, block, flag, error):
    block.flag(0, 7, flag)
    for step in (lambda: run.progress(1), lambda: run.stage("X"), run.check):
        with pytest.raises(error, match="job j"):
            step()


def test_a_flag_for_an_older_fence_is_not_meant(run, block):
    block.flag(0, 6, LOST)
    run.check()


def test_a_checkpoint_is_saved_as_json_and_seen_at_once(run):
    saved = []
    run.save = lambda text: saved.append(text) or True
    run.checkpoint({"row": 5})
    assert saved == ['{"row": 5}']
    assert run.checkpoint_data == {"row": 5}


def test_a_refused_checkpoint_raises_and_changes_nothing(run):
    run.save = lambda text: False
    with pytest.raises(LeaseLost, match="refused"):
        run.checkpoint(1)
    assert run.checkpoint_data is None


@pytest.mark.parametrize("bad", [object(), float("nan")])
def test_a_checkpoint_that_json_cannot_hold_is_an_error(run, bad):
    with pytest.raises((TypeError, ValueError)):
        run.checkpoint(bad)


def test_without_a_worker_everything_works_and_is_kept_in_memory(bench):
    @bench.task(name="t.local")
    def local():
        job = current_job()
        job.progress(1, 2)
        job.stage("A")
        job.checkpoint(5)
        return [job.checkpoint_data, job.fence, list(job.track([1, 2]))]

    assert local() == [5, 0, [1, 2]]
    assert local.apply().get() == [5, 0, [1, 2]]


def test_a_checkpoint_reaches_the_next_attempt(bench):
    @bench.task(name="t.resumes")
    def resumes():
        job = current_job()
        if job.checkpoint_data is None:
            job.checkpoint([1, "two"])
            raise DiedError
        return [job.checkpoint_data, job.attempt, job.crashes]

    result = resumes.delay()
    [message] = bench.messages()
    with pytest.raises(DiedError):
        bench.run(message)
    bench.crash(result.id)
    bench.run(message)
    assert result.get(timeout=5) == [[1, "two"], 2, 1]
