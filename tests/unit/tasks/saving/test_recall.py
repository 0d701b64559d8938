"""A job that Redis has forgotten is still known."""

from __future__ import annotations

import subprocess
import sys

import pytest

from denyut.errors import UnknownJob
from denyut.states import State, Verdict
from denyut.tasks.saving.applier import Applier
from denyut.tasks.saving.recall import recall, recall_story


@pytest.fixture
def forgotten(shelves):
    """Return a function that lets a job run, and Redis forget it when the store has it."""

    def forget(*args: object) -> str:
        job = shelves.work.delay(*args)
        shelves.bench.crash(job.id)
        shelves.bench.drain()
        Applier(shelves.pulse).step()
        keys = shelves.pulse.keys.job(job.id)
        shelves.client.delete(keys.record, keys.events, keys.telemetry)
        return str(job.id)

    return forget


def test_its_status_and_its_result_are_those_that_it_had(shelves, forgotten):
    job_id = forgotten()
    status = shelves.pulse.jobs.get(job_id)
    assert (status.verdict, status.state, status.attempt) == (Verdict.COMPLETED, State.COMPLETED, 1)
    assert shelves.pulse.jobs.result(job_id) == 3


def test_its_story_is_the_one_that_it_had(shelves):
    job = shelves.work.delay(bad=True)
    shelves.bench.drain()
    shelves.pulse.jobs.cancel(job.id)
    Applier(shelves.pulse).step()
    before = shelves.pulse.jobs.events(job.id)
    keys = shelves.pulse.keys.job(job.id)
    shelves.client.delete(keys.record, keys.events, keys.telemetry)
    assert shelves.pulse.jobs.events(job.id) == before
    assert [event.kind for event in before][-1] == "failed"


def test_one_that_nobody_has_ever_known_is_unknown(shelves):
    assert shelves.pulse.jobs.get("nobody").verdict == Verdict.UNKNOWN
    assert shelves.pulse.jobs.events("nobody") == []
    with pytest.raises(UnknownJob):
        shelves.pulse.jobs.result("nobody")


def test_while_the_store_is_down_nothing_is_recalled(shelves, forgotten):
    job_id = forgotten()
    shelves.pulse.saving.breaker.failed(OSError("gone"))
    assert recall(shelves.pulse, [job_id]) == {}
    assert recall_story(shelves.pulse, job_id) == []


def test_without_a_store_nothing_is_asked(bench):
    assert recall(bench.pulse, ["j"]) == {}
    assert recall_story(bench.pulse, "j") == []


def test_without_a_store_sqlalchemy_is_not_imported_for_a_status():
    script = "import sys, denyut.monitoring.jobs; print('sqlalchemy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
