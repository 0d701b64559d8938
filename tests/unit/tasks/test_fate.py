"""Who is to blame when a whole worker dies."""

from __future__ import annotations

import pytest

from denyut.tasks.fate import is_to_blame
from denyut.tasks.node import current_node


@pytest.fixture
def running(bench, valkey):
    """Make running jobs of a worker, as their records and the index show them."""

    def make(job_id, owner="dead|1", **fields):
        keys = bench.pulse.keys
        valkey.hset(keys.job(job_id).record, mapping={"state": "RUNNING", "owner": owner, **fields})
        valkey.zadd(keys.partition(keys.partition_of(job_id)).leases, {job_id: 1})

    return make


def test_a_job_that_was_alone_on_its_worker_is_to_blame(bench, running):
    running("a")
    running("b", owner="another|1")
    running("c", state="COMPLETED")
    assert is_to_blame(bench.pulse, "dead|1", "a")


def test_of_several_nobody_is_to_blame_however_late_one_is_looked_at(bench, running, valkey):
    for job_id in "abc":
        running(job_id)
    assert not is_to_blame(bench.pulse, "dead|1", "a")
    for job_id in "ab":
        valkey.hset(bench.pulse.keys.job(job_id).record, "state", "QUEUED")
    assert not is_to_blame(bench.pulse, "dead|1", "c"), "it is alone only because the others were moved"


def test_the_one_suspect_among_them_is_to_blame_and_the_others_are_not(bench, running):
    running("a")
    running("b", suspect=2)
    assert not is_to_blame(bench.pulse, "dead|1", "a")
    assert is_to_blame(bench.pulse, "dead|1", "b")


def test_one_that_has_shared_a_single_death_is_not_to_blame(bench, running):
    running("a")
    running("b", suspect=1)
    assert not is_to_blame(bench.pulse, "dead|1", "b")


def test_of_several_suspects_nobody_is_to_blame(bench, running):
    running("a", suspect=2)
    running("b", suspect=2)
    assert not is_to_blame(bench.pulse, "dead|1", "a")


def test_a_job_that_the_judge_itself_lost_is_alone(bench, running):
    running("a", owner=current_node().owner)
    running("b", owner=current_node().owner)
    assert is_to_blame(bench.pulse, current_node().owner, "a")
