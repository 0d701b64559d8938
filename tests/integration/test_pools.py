"""Every pool of Celery keeps its leases while a job holds the GIL, and gives them up when its worker dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from support import die_with_parent, wait_until

from denyut.states import State
from denyut.tasks.record import FIELDS, JobRecord

TTL = 1.0
POOLS = ("prefork", "prefork process", "solo", "threads", "gevent", "eventlet")
FOR_EVER = 60  # letters: the match of apps.jobs.backtrack does not end in this universe


class Look:
    """What Redis says of one job."""

    def __init__(self, pulse, job_id: str) -> None:
        self.client, self.keys = pulse.store.client, pulse.keys.job(job_id)
        self.id = job_id

    def record(self) -> JobRecord | None:
        return JobRecord.from_redis(self.id, self.client.hmget(self.keys.record, *FIELDS))

    def running(self) -> JobRecord:
        def found():
            record = self.record()
            return record if record and record.state == State.RUNNING else None

        return wait_until(found, timeout=30, what=f"job {self.id} to run")

    def telemetry(self) -> dict[str, str]:
        return {k.decode(): v.decode() for k, v in self.client.hgetall(self.keys.telemetry).items()}


@pytest.fixture(params=POOLS)
def node(request, worker):
    pool, _, heartbeat = request.param.partition(" ")
    env = {"LEASE_TTL": str(TTL), "HEARTBEAT": heartbeat or "auto"}
    return worker("apps.jobs", env=env, pool=pool, concurrency=1)


def test_a_job_that_holds_the_gil_for_five_ttls_keeps_its_lease_on_every_pool(node):
    look = Look(node.app.denyut, node.module.backtrack.delay(FOR_EVER).id)
    record = look.running()
    lease = f"{record.owner}#{record.fence}".encode()
    wait_until(look.telemetry, what="the first beat")
    end = time.monotonic() + 5 * TTL
    while time.monotonic() < end:
        assert look.client.get(look.keys.lease) == lease
        assert look.client.exists(look.keys.alive)
        seconds, micros = look.client.time()
        age = seconds * 10**6 + micros - int(look.telemetry()["last_heartbeat"])
        assert age < TTL * 10**6
        time.sleep(0.02)  # between two looks
    assert look.record().attempt == 1


def test_a_machine_with_all_cores_busy_costs_no_lease(worker):
    node = worker("apps.jobs", env={"LEASE_TTL": "1.5"}, concurrency=2)
    burners = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"], preexec_fn=die_with_parent)
        for _ in range(2 * (os.cpu_count() or 1))
    ]
    try:
        results = [node.module.steps.delay(40, 0.2) for _ in range(2)]
        assert [result.get(timeout=60) for result in results] == [[0, 1, 0]] * 2, "five TTLs, one attempt"
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


def test_the_job_of_a_killed_worker_runs_again_elsewhere_on_every_pool(node, worker):
    result = node.module.steps.delay(25, 0.1)
    look = Look(node.app.denyut, result.id)
    wait_until(lambda: (look.record().checkpoint or 0) >= 2, timeout=30, what="two steps")
    node.kill()  # the main process alone: what it has started must end by itself
    worker("apps.jobs", env={"LEASE_TTL": str(TTL)})
    begin, attempt, crashes = result.get(timeout=30)
    assert (attempt, crashes) == (2, 1)
    assert begin >= 2


def test_a_warm_shutdown_lets_the_job_end_under_its_lease_on_every_pool(node):
    result = node.module.steps.delay(15, 0.2)
    look = Look(node.app.denyut, result.id)
    record = look.running()
    lease = f"{record.owner}#{record.fence}".encode()
    node.send_signal(15)
    while (now := look.record()).state == State.RUNNING:
        assert look.client.get(look.keys.lease) == lease or look.record().state != State.RUNNING
        assert now.attempt == 1
        time.sleep(0.02)  # between two looks
    assert node.wait(30) == 0
    assert look.record().state == State.COMPLETED
    assert not look.client.zcard(node.app.denyut.keys.workers()), "it has signed off"


def test_a_killed_pool_process_is_noticed_at_once_by_a_heartbeat_in_a_process_of_its_own(worker):
    node = worker("apps.jobs", env={"LEASE_TTL": "6.0", "HEARTBEAT": "process"})
    result = node.module.steps.delay(10, 0.1)
    look = Look(node.app.denyut, result.id)
    wait_until(lambda: (look.record().checkpoint or 0) >= 2, timeout=30, what="two steps")
    os.kill(look.record().pid, signal.SIGKILL)
    begin, attempt, crashes = result.get(timeout=30)
    assert (attempt, crashes) == (2, 1)
    assert begin >= 2
    assert look.record().recovered_us < 6 * 10**6, "before its lease had lapsed"


def test_a_heartbeat_process_that_is_killed_again_and_again_costs_no_lease(worker):
    node = worker("apps.jobs", env={"LEASE_TTL": "3.0"}, pool="threads", concurrency=2)
    results = [node.module.steps.delay(60, 0.2) for _ in range(2)]
    looks = [Look(node.app.denyut, result.id) for result in results]
    for look in looks:
        look.running()
    for _ in range(4):
        before = looks[0].telemetry().get("last_heartbeat", "")
        wait_until(
            lambda last=before: looks[0].telemetry().get("last_heartbeat", "") > last,
            timeout=20,
            what="a beat of this process",
        )
        (beating,) = node.pool_pids
        os.kill(beating, signal.SIGKILL)
        wait_until(lambda pid=beating: pid not in node.pool_pids, what="its end")
    for result in results:
        assert result.get(timeout=40)[1:] == [1, 0]


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_a_job_longer_than_the_brokers_visibility_timeout_is_not_delivered_again(worker, pool):
    options = {"visibility_timeout": 2, "unacked_restore_interval": 1, "unacked_restore_throttle": 1}
    env = {"ACKS_LATE": "1", "TRANSPORT": json.dumps(options), "LEASE_TTL": "2.0"}
    node = worker("apps.jobs", env=env, pool=pool, concurrency=1)
    worker("apps.jobs", env=env, concurrency=1)  # whoever looks for messages that are old
    result = node.module.steps.delay(35, 0.2)
    assert result.get(timeout=60) == [0, 1, 0]
    kinds = {event.kind for event in node.app.denyut.jobs.explain(result.id).events}
    assert not kinds & {"busy", "done", "stale"}, "no copy of its message came"
