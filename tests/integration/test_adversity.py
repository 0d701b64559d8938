"""What production does to workers: a server that hangs or is full, twins, the death of all at once."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter

import pytest
from kombu.exceptions import OperationalError
from redis import Redis
from support import wait_until

from denyut.states import State
from denyut.tasks.record import FIELDS, JobRecord

TTL = 1.0


def record(pulse, job_id):
    return JobRecord.from_redis(job_id, pulse.store.client.hmget(pulse.keys.job(job_id).record, *FIELDS))


def completed(pulse, ids):
    return wait_until(
        lambda: all(record(pulse, i).state == State.COMPLETED and record(pulse, i).settled for i in ids),
        timeout=60,
        what="all jobs to be completed",
    )


def runs(valkey: Redis) -> Counter[str]:
    return Counter({name.decode(): int(count) for name, count in valkey.hgetall("runs").items()})


def test_a_redis_that_hangs_for_longer_than_a_lease_costs_no_second_run(worker, valkey):
    """Nobody can renew, and nobody can take over: when it answers again, all go on."""
    nodes = [worker("apps.jobs", env={"LEASE_TTL": str(TTL)}) for _ in range(2)]
    pulse = nodes[0].app.denyut
    results = [nodes[0].module.steps.delay(8, 0.2) for _ in range(4)]
    for result in results:
        wait_until(lambda job_id=result.id: record(pulse, job_id).attempt, timeout=20, what="its start")
    server = int(valkey.info("server")["process_id"])
    os.kill(server, signal.SIGSTOP)
    time.sleep(2.5 * TTL)  # how long it hangs
    os.kill(server, signal.SIGCONT)
    for result in results:
        _, attempt, crashes = result.get(timeout=60)
        assert (attempt, crashes) == (1, 0)


def test_a_full_redis_refuses_new_jobs_and_loses_none(worker, valkey):
    node = worker("apps.jobs", env={"LEASE_TTL": str(TTL)})
    pulse = node.app.denyut
    accepted = [node.module.once.delay(n).id for n in range(20)]
    valkey.config_set("maxmemory", "1")
    try:
        refused = 0
        for n in range(100, 110):
            with pytest.raises(OperationalError, match="maxmemory"):
                node.module.once.delay(n)
            refused += 1
        time.sleep(TTL)  # for as long nothing can be written
    finally:
        valkey.config_set("maxmemory", "0")
    node.kill_all()  # kombu ends a worker that cannot note a message at its broker; it is started again
    node.start()
    completed(pulse, accepted)
    ran = runs(valkey)
    # A body that had run when its end could not be written has run in an attempt that was cut short.
    attempts = {str(n): record(pulse, job_id).attempt for n, job_id in enumerate(accepted)}
    assert all(1 <= ran[n] <= attempt for n, attempt in attempts.items()), (ran, attempts)
    assert node.module.once.delay(100).deduplicated is False, "its key was not kept by the refused one"
    assert refused == 10


def test_two_workers_of_one_name_do_not_take_each_others_jobs_for_their_own(worker, valkey):
    env = {"LEASE_TTL": str(TTL)}
    nodes = [worker("apps.jobs", env=env, name="twin@host", concurrency=1) for _ in range(2)]
    pulse = nodes[0].app.denyut
    results = [nodes[0].module.steps.delay(15, 0.1) for _ in range(2)]
    owners = {
        wait_until(lambda job_id=result.id: record(pulse, job_id).owner, timeout=20, what="its owner")
        for result in results
    }
    assert len(owners) == 2, "each start of a worker is somebody else"
    nodes[0].kill_all()
    ended = sorted(result.get(timeout=60)[1:] for result in results)
    assert ended == [[1, 0], [2, 1]], "only the job of the dead one runs again"


def test_when_all_workers_die_at_once_their_jobs_run_again_when_there_is_one(worker, valkey):
    env = {"LEASE_TTL": str(TTL)}
    nodes = [worker("apps.jobs", env=env) for _ in range(3)]
    pulse = nodes[0].app.denyut
    results = [nodes[0].module.steps.delay(40, 0.1) for _ in range(8)]
    wait_until(
        lambda: sum(record(pulse, result.id).state == State.RUNNING for result in results) >= 6,
        timeout=30,
        what="all pools at work",
    )
    for node in nodes:
        os.killpg(node.pid, signal.SIGKILL)
    worker("apps.jobs", env=env)
    for result in results:
        begin, attempt, _ = result.get(timeout=60)
        assert attempt <= 2
        assert begin == 0 or attempt == 2, "from its checkpoint"
    for result in results:
        done = [int(valkey.hget("steps", f"{result.id}:{step}") or 0) for step in range(40)]
        assert all(done)
        assert sum(done) <= 41, "only the step that was cut short may be repeated"
