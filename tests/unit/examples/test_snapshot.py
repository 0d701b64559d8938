from __future__ import annotations

from snapshot import Snapshot, take, worker_of
from statuses import job

from denyut.median.columns import check_events
from denyut.median.packing import encode
from denyut.median.tasks import apply_message
from denyut.states import State


def test_a_snapshot_has_jobs_and_medians_and_is_settled_when_no_job_is_left(pulse):
    made = pulse()
    apply_message(made, "s", encode(check_events([(1.0, "a"), (3.0, "b")])[0]))
    snapshot = take(made, {})
    assert snapshot.settled
    assert snapshot.events == 2
    assert snapshot.medians["s"].value == 2.0
    queued = made.app.send_task("t")
    snapshot = take(made, {"m": queued.id})
    assert not snapshot.settled
    assert snapshot.jobs["m"].state == State.QUEUED


def test_the_share_is_that_of_all_jobs_together():
    jobs = {"a": job(State.COMPLETED), "b": job(State.RUNNING, progress=0.5), "c": job(State.QUEUED)}
    assert Snapshot(jobs, {}, settled=False).share == 0.5
    assert Snapshot({}, {}, settled=False).share == 0.0


def test_the_worker_is_the_owner_without_its_boot():
    assert worker_of(job(State.RUNNING, owner="w1@demo|1f2e")) == "w1@demo"
    assert worker_of(job(State.QUEUED)) == ""
