"""A worker that ends is told from a task that ends itself."""

from __future__ import annotations

import pytest
from billiard import common
from celery.exceptions import WorkerShutdown, WorkerTerminate

from denyut.states import State
from denyut.tasks.ending import TERMINATED, told_to_end, worker_ends
from denyut.tasks.slots import SlotBlock, use_block


@pytest.fixture
def signalled(monkeypatch):
    """Do what billiard's handler does when the process gets SIGTERM."""

    def signalled():
        monkeypatch.setattr(common, "_should_have_exited", [True])
        raise SystemExit(TERMINATED)

    return signalled


@pytest.mark.parametrize("exc", [WorkerShutdown(0), WorkerTerminate(1)])
def test_celerys_own_words_for_the_end_of_a_worker_are_the_end_of_the_worker(exc):
    assert worker_ends(exc, before=False)


@pytest.mark.parametrize("exc", [SystemExit(1), SystemExit(TERMINATED), KeyboardInterrupt(), GeneratorExit()])
def test_the_same_errors_without_a_signal_are_the_tasks_own(exc):
    assert not told_to_end()
    assert not worker_ends(exc, before=False)


def test_a_greenlet_that_is_killed_ends_the_run():
    greenlet = pytest.importorskip("greenlet")
    assert worker_ends(greenlet.GreenletExit(), before=False)


def test_whatever_leaves_the_body_after_the_signal_is_the_end_of_the_worker(signalled):
    with pytest.raises(SystemExit):
        signalled()
    assert worker_ends(SystemExit(TERMINATED), before=False)
    assert worker_ends(OSError("rollback failed"), before=False)
    assert not worker_ends(OSError("later"), before=True), "an earlier body swallowed the signal"


@pytest.mark.parametrize("cleanup", [None, OSError("rollback failed")])
def test_a_body_that_the_signal_cuts_short_writes_nothing_and_runs_again(bench, signalled, cleanup):
    runs = []

    @bench.task(name="t.cut")
    def cut():
        runs.append(1)
        if len(runs) > 1:
            return "whole"
        try:
            signalled()
        finally:
            if cleanup is not None:
                raise cleanup

    use_block(block := SlotBlock.create())
    result = cut.delay()
    [message] = bench.messages()
    with pytest.raises(SystemExit) as left:
        bench.run(message)
    [(_, state)] = block.active()
    assert state.job_id == result.id, "who watches the process finds the job that died with it"
    use_block(None)
    block.close()
    assert left.value.code == TERMINATED
    assert bench.record(result.id).state == State.RUNNING
    assert result.state == "PENDING"
    common._should_have_exited[0] = False
    bench.crash(result.id)
    bench.run(message)
    assert result.get(timeout=5) == "whole"
