"""The heartbeat of real workers: jobs that hold the GIL, shutdowns, messages in hand, workers that stall."""

from __future__ import annotations

import os
import signal
import time

import pytest
from support import wait_until

from denyut.states import State
from denyut.tasks.record import FIELDS, JobRecord

FOR_EVER = 60  # letters: the match of apps.jobs.backtrack does not end in this universe


class Jobs:
    """What Redis says of the jobs of a node's app."""

    def __init__(self, pulse) -> None:
        self.pulse, self.client = pulse, pulse.store.client

    def record(self, job_id: str) -> JobRecord | None:
        return JobRecord.from_redis(job_id, self.client.hmget(self.pulse.keys.job(job_id).record, *FIELDS))

    def running(self, job_id: str) -> JobRecord:
        def found():
            record = self.record(job_id)
            return record if record and record.state == State.RUNNING else None

        return wait_until(found, timeout=20, what=f"job {job_id} to run")

    def lease(self, job_id: str) -> str | None:
        value = self.client.get(self.pulse.keys.job(job_id).lease)
        return value.decode() if value else None

    def telemetry(self, job_id: str) -> dict[str, str]:
        raw = self.client.hgetall(self.pulse.keys.job(job_id).telemetry)
        return {k.decode(): v.decode() for k, v in raw.items()}

    def workers(self) -> list[dict[str, str]]:
        found = []
        for owner in self.client.zrange(self.pulse.keys.workers(), 0, -1):
            raw = self.client.hgetall(self.pulse.keys.worker(owner.decode()))
            found.append({k.decode(): v.decode() for k, v in raw.items()})
        return found


def test_a_job_that_holds_the_gil_keeps_its_lease_for_more_than_three_ttls(worker):
    node = worker("apps.jobs", env={"LEASE_TTL": "1.5"}, concurrency=1)
    jobs = Jobs(node.app.denyut)
    job_id = node.module.backtrack.delay(FOR_EVER).id
    record = jobs.running(job_id)
    first = wait_until(lambda: jobs.telemetry(job_id), what="the first beat")
    end = time.monotonic() + 3.5 * 1.5
    while time.monotonic() < end:
        assert jobs.lease(job_id) == f"{record.owner}#{record.fence}"
        time.sleep(0.01)  # between two looks
    last = jobs.telemetry(job_id)
    assert (last["status"], last["stage"], last["attempt"]) == ("RUNNING", "MATCHING", "1")
    assert float(last["cpu_s"]) > float(first["cpu_s"])
    assert last["last_active"] == last["last_heartbeat"]
    assert last["last_progress"] < last["last_heartbeat"]
    assert jobs.record(job_id).attempt == 1


def test_leases_are_kept_through_a_warm_shutdown_until_the_job_ends(worker):
    node = worker("apps.jobs", env={"LEASE_TTL": "1.0"}, concurrency=1)
    jobs = Jobs(node.app.denyut)
    result = node.module.steps.delay(12, 0.3)
    record = jobs.running(result.id)
    (seen,) = wait_until(jobs.workers, what="the worker to be listed")
    assert (seen["name"], seen["pid"], seen["pool"]) == (node.name, str(node.pid), "prefork")
    node.send_signal(signal.SIGTERM)
    while jobs.record(result.id).state == State.RUNNING:
        lease = jobs.lease(result.id)
        assert lease == f"{record.owner}#{record.fence}" or jobs.record(result.id).state != State.RUNNING
        time.sleep(0.01)  # between two looks
    assert node.wait() == 0
    assert jobs.record(result.id).state == State.COMPLETED
    assert jobs.record(result.id).attempt == 1
    assert jobs.workers() == [], "it signed off"


def test_a_prefetched_message_is_held_while_its_worker_beats(worker):
    node = worker("apps.jobs", env={"LEASE_TTL": "1.0", "PREFETCH": "4"}, concurrency=1)
    jobs = Jobs(node.app.denyut)
    jobs.running(node.module.backtrack.delay(FOR_EVER).id)
    waiting = node.module.add.delay(1, 2).id
    part = jobs.pulse.keys.partition(jobs.pulse.keys.partition_of(waiting))
    wait_until(lambda: jobs.client.zscore(part.held, waiting), what="the message in hand")
    before = jobs.client.zscore(part.held, waiting)
    wait_until(lambda: jobs.client.zscore(part.held, waiting) > before, what="its deadline to move on")
    assert jobs.record(waiting).state == State.QUEUED


def test_a_suspended_worker_whose_job_was_taken_over_changes_nothing_when_it_wakes(worker):
    env = {"LEASE_TTL": "1.0"}
    first = worker("apps.jobs", env=env, concurrency=1)
    jobs = Jobs(first.app.denyut)
    result = first.module.steps.delay(20, 0.25)
    lost = jobs.running(result.id)
    pool = first.pool_pids
    second = worker("apps.jobs", env=env, concurrency=1)
    for pid in (first.pid, *pool):
        os.kill(pid, signal.SIGSTOP)
    won = wait_until(
        lambda: found if (found := jobs.record(result.id)).fence > lost.fence else None, timeout=20
    )
    for pid in (*pool, first.pid):
        os.kill(pid, signal.SIGCONT)
    _, attempt, crashes = result.get(timeout=30)
    assert (attempt, crashes) == (2, 1)
    assert jobs.record(result.id).fence == won.fence
    assert second.running
    wait_until(lambda: "lost its lease" in first.logs(), what="the loser to say so")


@pytest.mark.parametrize("times", [3])
def test_every_death_of_a_pool_process_is_noticed_between_two_beats(worker, times):
    node = worker("apps.jobs", env={"LEASE_TTL": "30.0"}, concurrency=1)
    jobs = Jobs(node.app.denyut)
    for _ in range(times):
        job_id = node.module.backtrack.delay(FOR_EVER).id
        for attempt in (1, 2):
            record = wait_until(
                lambda attempt=attempt, job_id=job_id: (
                    found
                    if (found := jobs.record(job_id))
                    and (found.attempt, found.state) == (attempt, State.RUNNING)
                    else None
                ),
                timeout=20,
                what=f"attempt {attempt}",
            )
            assert record.crashes == attempt - 1
            if attempt == 1:
                os.kill(record.pid, signal.SIGKILL)
        assert record.recovered_us < 10_000_000, "before the next beat, let alone the end of its lease"
        jobs.client.hset(jobs.pulse.keys.job(job_id).record, "crashes", 99)
        os.kill(record.pid, signal.SIGKILL)
        wait_until(lambda job_id=job_id: jobs.record(job_id).state == State.DEAD, what="its burial")
