"""Workers that are late, leases that have lapsed, jobs that are nowhere."""

from __future__ import annotations

import pytest

from denyut.monitoring.check import Level
from denyut.monitoring.check_jobs import check_audit, check_leases, check_workers


@pytest.fixture
def desk(make_desk):
    return make_desk(denyut_lease_ttl=6.0)


def enqueue(desk):
    @desk.pulse.app.task(name="t.work", shared=False)
    def work(): ...

    return work.delay()


def test_without_a_worker_there_is_a_warning(desk):
    found = check_workers(desk.pulse, desk.client)
    assert (found.level, found.message) == (Level.WARN, "no worker beats")


def test_workers_in_time_are_well(desk):
    desk.worker("a", running=2)
    desk.worker("b", running=1)
    found = check_workers(desk.pulse, desk.client)
    assert (found.level, found.message) == (Level.OK, "2 worker(s) beat and run 3 job(s)")


def test_a_late_worker_is_named(desk):
    desk.worker("fine")
    desk.worker("slow@host", lag_ms=2500)
    found = check_workers(desk.pulse, desk.client)
    assert found.level == Level.WARN
    assert "1 of 2 worker(s) beat late, slow@host by 2.5 s" in found.message


def test_live_leases_are_well(desk):
    desk.running("j", 100)
    assert check_leases(desk.pulse, desk.client).level == Level.OK


def test_a_lease_that_has_just_lapsed_is_a_warning(desk):
    desk.index("leases", "j", desk.ago(0.2))
    assert check_leases(desk.pulse, desk.client).level == Level.WARN


def test_a_lease_that_lapsed_longer_ago_than_recovery_takes_fails(desk):
    desk.index("leases", "j", desk.ago(30))
    desk.index("leases", "k", desk.ago(12))
    found = check_leases(desk.pulse, desk.client)
    assert found.level == Level.FAIL
    assert found.message.startswith("2 job(s) have lost their worker, the first 30.")


def test_jobs_that_are_accounted_for_are_well(desk):
    enqueue(desk)
    desk.count(enqueued=1, completed=1)
    found = check_audit(desk.pulse, desk.client)
    assert (found.level, found.message) == (
        Level.OK,
        "2 job(s) were accepted, 1 have ended, all others are known",
    )


def test_a_job_that_somebody_deleted_is_missed(desk):
    job = enqueue(desk)
    partition = desk.pulse.keys.partition(desk.pulse.keys.partition_of(job.id))
    desk.client.zrem(partition.queued, job.id)
    found = check_audit(desk.pulse, desk.client)
    assert found.level == Level.WARN
    assert found.message.startswith("1 of 1 accepted")
