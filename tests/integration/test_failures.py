"""On real workers: whatever leaves a body is one failed job, told at once, and the worker goes on."""

from __future__ import annotations

import pytest
from celery import chord
from celery.exceptions import TimeLimitExceeded
from celery.exceptions import TimeoutError as NotYetError
from support import wait_until

from denyut.states import State
from denyut.tasks.record import FIELDS, JobRecord


def record(pulse, job_id):
    return JobRecord.from_redis(job_id, pulse.store.client.hmget(pulse.keys.job(job_id).record, *FIELDS))


@pytest.mark.parametrize(
    ("pool", "acks_late"), [("prefork", "0"), ("prefork", "1"), ("solo", "1"), ("threads", "0")]
)
def test_every_way_out_of_a_body_is_one_failure_and_the_worker_goes_on(worker, pool, acks_late):
    node = worker("apps.failing", pool=pool, env={"ACKS_LATE": acks_late})
    module, pulse = node.module, node.app.denyut
    pids = node.pool_pids
    results = {way: module.ends.delay(way) for way in module.WAYS}
    for way, result in results.items():
        with pytest.raises(Exception) as told:
            result.get(timeout=20)
        assert not isinstance(told.value, NotYetError), f"{way}: its caller waited in vain"
        found = wait_until(lambda job_id=result.id: (r := record(pulse, job_id)).settled and r, what=way)
        assert (found.state, found.attempt, found.crashes) == (State.FAILED, 1, 0), way
    assert module.fine.delay().get(timeout=20) == 1
    assert node.pool_pids == pids, "no process was lost"
    assert "Traceback" not in node.logs().partition("Restoring")[2]


@pytest.mark.parametrize("pool", ["prefork", "solo", "threads"])
def test_a_chord_with_a_member_that_exits_fails_at_once(worker, pool):
    node = worker("apps.failing", pool=pool)
    module = node.module
    result = chord([module.fine.s(), module.ends.s("1")])(module.collect.s())
    with pytest.raises(Exception, match=r"JobExited|SystemExit"):
        result.get(timeout=20)


@pytest.mark.parametrize("acks_late", ["0", "1"])
def test_a_hard_time_limit_is_retried_by_the_tasks_own_policy_and_is_no_crash(worker, acks_late):
    node = worker("apps.failing", env={"ACKS_LATE": acks_late})
    module, pulse = node.module, node.app.denyut
    result = module.over_limit.delay(1)
    assert result.get(timeout=30) == 2
    found = record(pulse, result.id)
    assert (found.failures, found.crashes) == (1, 0)
    spent = module.over_limit.delay(9)
    with pytest.raises(TimeLimitExceeded):
        spent.get(timeout=30)
    found = wait_until(lambda: (r := record(pulse, spent.id)).settled and r)
    assert (found.state, found.attempt, found.failures, found.crashes) == (State.FAILED, 3, 2, 0)
    letter = pulse.jobs.dead().letters[0]
    assert "hard time limit" in letter.reason
