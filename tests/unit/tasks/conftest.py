"""The pool-process side of a worker, in the test's own process: real messages, real records, no pool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from celery.app.trace import build_tracer
from changes import every_change_is_a_version
from kombu import Connection
from kombu.serialization import prepare_accept_content

from denyut import Denyut
from denyut.tasks.record import FIELDS, JobRecord
from denyut.tasks.schedule import Schedule


@dataclass
class Bench:
    """Takes messages off the broker and runs them as a pool process would."""

    pulse: Denyut

    @property
    def app(self) -> Any:
        return self.pulse.app

    def task(self, **options: Any) -> Any:
        """``app.task`` for this app alone: a shared task would be registered with every later app."""
        return self.app.task(shared=False, **options)

    def messages(self, queue: str | None = None) -> list[Any]:
        """Take all waiting messages off the broker."""
        found = []
        with Connection(self.app.conf.broker_url) as connection:
            channel = connection.channel()
            while (message := channel.basic_get(queue or self.app.conf.task_default_queue)) is not None:
                channel.basic_ack(message.delivery_tag)
                message.accept = prepare_accept_content(self.app.conf.accept_content)  # as a worker does
                found.append(message)
        return found

    def run(self, message: Any) -> Any:
        """Run one message: returns Celery's (retval, info, runtime, text)."""
        args, kwargs, embed = message.payload
        request = {
            **message.headers,
            "properties": message.properties,
            "delivery_info": message.delivery_info,
        }
        request |= {"args": args, "kwargs": kwargs, "is_eager": False, "hostname": "bench", **(embed or {})}
        task = self.app.tasks[message.headers["task"]]
        if task.__trace__ is None:
            task.__trace__ = build_tracer(task.name, task, self.app.loader, "bench", app=self.app)
        return task.__trace__(message.headers["id"], args, kwargs, request)

    def drain(self) -> int:
        """Run messages until there is none; returns how many."""
        count = 0
        while batch := self.messages():
            for message in batch:
                self.run(message)
                count += 1
        return count

    def run_all(self) -> None:
        """Run what is queued, and publish and run what has become due, or does so by that."""
        schedule = Schedule(self.pulse)
        schedule.step()
        while self.drain():
            schedule.step()

    def record(self, job_id: str) -> JobRecord | None:
        raw = self.pulse.store.client.hmget(self.pulse.keys.job(job_id).record, *FIELDS)
        return JobRecord.from_redis(job_id, raw)

    def crash(self, job_id: str) -> None:
        """Take the lease of a running job away, as its TTL does when its worker is gone."""
        job = self.pulse.keys.job(job_id)
        part = self.pulse.keys.partition(job.partition)
        self.pulse.store.client.delete(job.lease, job.alive)
        self.pulse.store.client.zadd(part.leases, {job_id: 1})

    def counters(self) -> dict[str, int]:
        """All counters of all partitions, without the task names."""
        total: dict[str, int] = {}
        for part in self.pulse.keys.all_partitions():
            for name, value in self.pulse.store.client.hgetall(part.counters).items():
                what = name.decode().partition(":")[0]
                total[what] = total.get(what, 0) + int(value)
        return total


@pytest.fixture(autouse=True)
def versions():
    """Whatever script a test runs, each change that it makes to a record is a new version."""
    with every_change_is_a_version() as wrong:
        yield
    assert not wrong


@pytest.fixture
def bench(pulse) -> Bench:
    return Bench(pulse())


@pytest.fixture
def make_bench(pulse):
    return lambda **conf: Bench(pulse(**conf))


@pytest.fixture
def sync(bench):
    """A task with a key: a run does the next of ``sync.during``; ``sync.ran`` tells of all runs."""
    ran, during = [], []

    @bench.task(name="t.sync", idempotency_key="sync")
    def sync(n=0):
        ran.append(n)
        if during:
            during.pop(0)()
        return n

    sync.ran, sync.during = ran, during
    return sync
