"""Slots with hand-made jobs in them, and the records that belong to them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from changes import every_change_is_a_version
from redis import Redis

from denyut.config import Settings
from denyut.keys import Keys
from denyut.signals.beat import Beat, Beater
from denyut.tasks.node import Node
from denyut.tasks.slots import SlotBlock

OWNER = Node("test@host", "b00t", os.getpid()).owner
FENCE = 1_700_000_000_000_000


@pytest.fixture(autouse=True)
def versions():
    """Whatever script a test runs, each change that it makes to a record is a new version."""
    with every_change_is_a_version() as wrong:
        yield
    assert not wrong


class Stage:
    """One worker's slots on a Redis of its own, with jobs begun as a claim and a pool process would."""

    def __init__(self, client: Redis, **settings: Any) -> None:
        self.client: Any = client
        self.settings = Settings.build({"lease_ttl": 6.0, **settings})
        self.keys = Keys(self.settings.prefix, self.settings.partitions)
        self.block = SlotBlock.create()
        self.beater = Beater(self.settings, self.keys, self.block)

    def claim(self, job_id: str, *, fence: int = FENCE, lease_ms: int = 6000, **fields: Any) -> None:
        """Write what a claim writes."""
        job = self.keys.job(job_id)
        record = {"state": "RUNNING", "fence": fence, "settled": "0", "started_at": fence, "attempt": 1}
        self.client.hset(job.record, mapping=record | fields)
        self.client.set(job.lease, f"{OWNER}#{fence}", px=lease_ms)

    def begin(self, index: int, job_id: str, *, fence: int = FENCE, attempt: int = 1) -> None:
        """Begin a job in a slot of this process."""
        partition = self.keys.partition_of(job_id)
        slot = self.block.slot(index)
        slot.begin(job_id=job_id, task="t", partition=partition, fence=fence, attempt=attempt, owner=OWNER)

    def run(self, index: int, job_id: str, *, fence: int = FENCE, **fields: Any) -> None:
        """Claim a job and begin it."""
        self.claim(job_id, fence=fence, **fields)
        self.begin(index, job_id, fence=fence)

    def beat(self, held: list[str] | None = None, lag: float = 0.0) -> Beat:
        return self.beater.beat(self.client, self.beater.jobs(), held or [], lag=lag)

    def ttl(self, job_id: str) -> int:
        """Milliseconds left of a lease; negative if there is none."""
        return int(self.client.pttl(self.keys.job(job_id).lease))

    def telemetry(self, job_id: str) -> dict[str, str]:
        raw = self.client.hgetall(self.keys.job(job_id).telemetry)
        return {name.decode(): value.decode() for name, value in raw.items()}

    def events(self, job_id: str) -> list[dict[str, str]]:
        raw = self.client.xrange(self.keys.job(job_id).events)
        return [{k.decode(): v.decode() for k, v in fields.items()} for _, fields in raw]

    def set_record(self, job_id: str, **fields: Any) -> None:
        self.client.hset(self.keys.job(job_id).record, mapping=fields)

    def deadline(self, job_id: str, index: str = "leases") -> float | None:
        part = self.keys.partition(self.keys.partition_of(job_id))
        return self.client.zscore(getattr(part, index), job_id)


@pytest.fixture
def stage(valkey):
    stage = Stage(valkey)
    yield stage
    stage.block.close()


@pytest.fixture
def make_stage(valkey):
    made: list[Stage] = []

    def make(client: Redis | None = None, **settings: Any) -> Stage:
        made.append(Stage(client or valkey, **settings))
        return made[-1]

    yield make
    for each in made:
        each.block.close()


@pytest.fixture
def fork():
    """Fork a child that runs ``work`` and then waits to be killed; returns its pid."""
    pids: list[int] = []

    def start(work: Callable[[], None] = lambda: None) -> int:
        pid = os.fork()
        if pid == 0:
            try:
                work()
                signal.pause()
            finally:
                os._exit(1)
        pids.append(pid)
        return pid

    yield start
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)
