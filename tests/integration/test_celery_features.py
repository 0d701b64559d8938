"""What Celery does around a task, with real workers. (Its own suite: tests/conformance.)"""

from __future__ import annotations

from datetime import timedelta

import pytest
from celery import _state
from celery.beat import Scheduler
from support import wait_until

from denyut import current_job
from denyut.states import State
from denyut.tasks.record import FIELDS, JobRecord


def record(pulse, job_id):
    return JobRecord.from_redis(job_id, pulse.store.client.hmget(pulse.keys.job(job_id).record, *FIELDS))


def told(valkey, name):
    return [value.decode() for value in valkey.lrange(name, 0, -1)]


@pytest.fixture
def current():
    """Canvas primitives look for the current app."""
    before = _state._tls.current_app
    yield lambda app: app.set_current()
    _state._tls.current_app = before


def test_a_job_that_a_rate_limit_holds_back_for_longer_than_a_lease_runs_once(worker, valkey):
    node = worker("apps.features", concurrency=1, env={"PREFETCH": "10"})
    results = [node.module.limited.delay(str(n)) for n in range(3)]  # one in three seconds; the lease: one
    assert [result.get(timeout=60) for result in results] == ["0", "1", "2"]
    assert sorted(told(valkey, "limited")) == ["0", "1", "2"]
    for result in results:
        found = record(node.app.denyut, result.id)
        assert (found.state, found.attempt, found.crashes) == (State.COMPLETED, 1, 0)


def test_what_has_priority_runs_first(worker, valkey):
    node = worker("apps.features", concurrency=1, start=False)
    for name, priority in (("low", 9), ("middle", 5), ("high", 0)):
        node.module.ordered.apply_async((name,), priority=priority)
    node.start()
    wait_until(lambda: len(told(valkey, "ordered")) == 3, timeout=30, what="all three")
    assert told(valkey, "ordered") == ["high", "middle", "low"]


@pytest.mark.parametrize("acks_late", ["0", "1"])
def test_results_chunks_map_and_starmap(worker, valkey, current, acks_late):
    node = worker("apps.features", env={"ACKS_LATE": acks_late})
    current(node.app)
    add = node.module.add
    assert add.delay(1, 2).get(timeout=30) == 3
    chunks = add.chunks([(n, n) for n in range(5)], 2).apply_async()
    assert chunks.get(timeout=30) == [[0, 2], [4, 6], [8]]
    assert add.starmap([(1, 1), (2, 2)]).apply_async().get(timeout=30) == [2, 4]
    ignored = node.module.ignored.delay("x")
    wait_until(lambda: told(valkey, "ignored") == ["x"], timeout=30, what="the ignored one")
    wait_until(lambda: record(node.app.denyut, ignored.id).settled, what="its end")
    assert not valkey.exists(f"celery-task-meta-{ignored.id}")


def test_an_eager_app_runs_a_job_in_place_without_a_record(pulse):
    made = pulse(task_always_eager=True, task_eager_propagates=True)
    seen = []

    @made.app.task(shared=False, name="t.eager", bind=True)
    def eager(self, fail=False):
        job = current_job()
        job.progress(1, 2)
        seen.append(job.attempt)
        if fail:
            raise KeyError("as told")
        return "here"

    assert eager.delay().get() == "here"
    assert eager.apply_async(link=eager.si()).get() == "here"
    with pytest.raises(KeyError):
        eager.delay(fail=True)
    assert seen == [1, 1, 1, 1]
    assert list(made.store.client.scan_iter(f"{made.settings.prefix}:*:job:*")) == []


def test_beat_enqueues_jobs_and_a_key_makes_one_of_many_ticks(pulse, valkey):
    made = pulse()

    @made.app.task(shared=False, name="t.tick")
    def tick():
        return 1

    @made.app.task(shared=False, name="t.daily", idempotency_key="daily:{day}")
    def daily(day):
        return day

    made.app.conf.beat_schedule = {
        "tick": {"task": "t.tick", "schedule": timedelta(0)},
        "daily": {"task": "t.daily", "schedule": timedelta(0), "args": ("2026-01-01",)},
    }
    scheduler = Scheduler(app=made.app)
    queue = made.app.conf.task_default_queue

    def sent():
        scheduler.tick()
        return [m for m in valkey.lrange(queue, 0, -1) if b"t.tick" in m]

    wait_until(lambda: len(sent()) >= 3, what="three ticks")
    assert len([m for m in valkey.lrange(queue, 0, -1) if b"t.daily" in m]) == 1
