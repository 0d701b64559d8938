"""A Redis that loses everything under real workers gets it back from the job store."""

from __future__ import annotations

import signal

import pytest
from sqlalchemy import select
from support import wait_until

from denyut.database.tables import tables
from denyut.states import State
from denyut.tasks.record import FIELDS, JobRecord
from denyut.tasks.saving.applier import Applier


def record(pulse, job_id):
    return JobRecord.from_redis(job_id, pulse.store.client.hmget(pulse.keys.job(job_id).record, *FIELDS))


@pytest.fixture
def node(worker, tmp_path, request):
    """A worker with a job store; it is not started."""
    pool = getattr(request, "param", "prefork")
    made = worker("apps.stored", env={"STORE_URL": f"sqlite:///{tmp_path}/jobs.db"}, pool=pool, start=False)
    made.app.denyut.database.create()
    yield made
    made.app.denyut.database.close()
    made.app.denyut.store.close()


def saved(pulse):
    client = pulse.store.client
    return not any(client.zcard(part.outbox) for part in pulse.keys.all_partitions())


def test_jobs_that_waited_in_a_redis_that_was_flushed_run_once_and_at_their_time(node, valkey):
    pulse, work = node.app.denyut, node.module.work
    node.start()
    ended = work.apply_async((0,), idempotency_key="ended")
    later = work.apply_async((4,), countdown=6)
    wait_until(lambda: record(pulse, ended.id).settled, 20, "the first job to end")
    due = record(pulse, later.id).due
    wait_until(lambda: saved(pulse), 20, "the store to have all")
    node.kill_all()
    waiting = [work.apply_async((0,)).id for _ in range(5)]
    applier = Applier(pulse)
    wait_until(lambda: applier.step() == len(waiting), 10, "the store to have those, too")
    applier.close()
    valkey.flushall()

    node.start()
    ids = [*waiting, later.id]
    wait_until(
        lambda: all((found := record(pulse, i)) and found.settled for i in ids), 30, "what waited to run"
    )
    found = [record(pulse, job_id) for job_id in ids]
    assert {(each.state, each.attempt) for each in found} == {(State.COMPLETED, 1)}
    assert found[-1].started_at >= due
    assert work.apply_async((0,), idempotency_key="ended").id == ended.id
    assert record(pulse, ended.id).attempt == 1


@pytest.mark.parametrize("node", ["prefork", "threads", "solo"], indirect=True)
def test_a_worker_that_ends_leaves_nothing_that_the_store_has_not(node, valkey):
    pulse = node.app.denyut
    node.start()
    ids = [node.module.work.delay(0).id for _ in range(20)]
    wait_until(lambda: record(pulse, ids[-1]).settled, 20, "the last job to end")
    node.send_signal(signal.SIGTERM)
    node.wait()
    assert saved(pulse)
    jobs, _ = tables()
    with pulse.database.begin() as connection:
        states = {row.id: row.state for row in connection.execute(select(jobs.c.id, jobs.c.state))}
    assert states == {job_id: str(record(pulse, job_id).state) for job_id in ids}


def test_a_real_worker_whose_store_was_not_migrated_ends_with_the_command(worker, tmp_path):
    env = {"STORE_URL": f"sqlite:///{tmp_path}/jobs.db"}
    node = worker("apps.stored", env=env, pool="solo", start=False)
    node.start(wait=False)
    assert node.wait() != 0
    assert "this worker cannot start: the job store has no tables; make them" in node.logs()
