"""Jobs written by hand, so that a test can make any moment of a job's life."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from celery.bin.base import CLIContext
from click.testing import CliRunner, Result

from denyut import Denyut
from denyut.monitoring.cli import denyut

SECOND = 1_000_000


def run_command(app: Any, *args: str) -> Result:
    """Run ``celery -A APP denyut ARGS`` in this process."""
    return CliRunner().invoke(denyut, args, obj=CLIContext(app, no_color=True, workdir=None))


class Desk:
    """Writes records, leases, telemetry and indexes as the scripts would. Times are seconds ago."""

    def __init__(self, pulse: Denyut) -> None:
        self.pulse = pulse
        self.client = pulse.store.client

    def now(self) -> int:
        seconds, micros = self.client.time()
        return int(seconds) * SECOND + int(micros)

    def ago(self, seconds: float) -> int:
        return self.now() - round(seconds * SECOND)

    def record(self, job_id: str, state: str, **fields: Any) -> None:
        """Write a record; every number is as given."""
        defaults = {"task": "t.work", "queue": "q", "gen": 1, "attempt": 1, "fence": 7, "version": 3}
        record = defaults | {"queued_at": self.ago(100), "started_at": self.ago(90)} | fields
        self.client.hset(self.pulse.keys.job(job_id).record, mapping={**record, "state": state})

    def lease(self, job_id: str, *, alive: bool = True, ms: int = 5000) -> None:
        keys = self.pulse.keys.job(job_id)
        self.client.set(keys.lease, "w@host|ab#7", px=ms)
        if alive:
            self.client.set(keys.alive, "7", px=ms)

    def telemetry(self, job_id: str, *, beat: float = 0.5, active: float = 0.5, **fields: Any) -> None:
        raw = {"status": "RUNNING", "fence": 7, "attempt": 1, "version": 4, "stage": "", "done": ""}
        raw |= {"last_heartbeat": self.ago(beat), "last_active": self.ago(active)}
        self.client.hset(self.pulse.keys.job(job_id).telemetry, mapping={**raw, **fields})

    def index(self, which: str, job_id: str, score: float) -> None:
        """Put a job into one of its partition's indexes."""
        partition = self.pulse.keys.partition(self.pulse.keys.partition_of(job_id))
        self.client.zadd(getattr(partition, which), {job_id: score})

    def queued(self, job_id: str, ago: float, **fields: Any) -> None:
        self.record(job_id, "QUEUED", attempt=0, queued_at=self.ago(ago), **fields)
        self.index("queued", job_id, self.ago(ago))

    def scheduled(self, job_id: str, due_in: float, **fields: Any) -> None:
        self.record(job_id, "SCHEDULED", attempt=0, due=self.ago(-due_in), **fields)
        self.index("schedule", job_id, self.ago(-due_in))

    def running(self, job_id: str, ago: float, **fields: Any) -> None:
        self.lease(job_id)  # first: whoever looks between the two would see a crashed job
        self.record(job_id, "RUNNING", started_at=self.ago(ago), **fields)
        self.index("leases", job_id, self.ago(-5))

    def ended(self, job_id: str, ago: float, state: str = "COMPLETED", **fields: Any) -> None:
        self.record(job_id, state, finished_at=self.ago(ago), settled=1, **fields)
        self.index("done", job_id, self.ago(ago))

    def worker(self, name: str, *, beat: float = 0.0, lag_ms: int = 0, running: int = 0) -> None:
        """Write a worker that beat ``beat`` seconds ago."""
        owner = f"{name}|ab"
        told = {"last_heartbeat": self.ago(beat), "beat_lag_ms": lag_ms, "name": name, "running": running}
        self.client.hset(self.pulse.keys.worker(owner), mapping=told)
        self.client.zadd(self.pulse.keys.workers(), {owner: self.ago(beat)})

    def count(self, **counters: int) -> None:
        """Add to the counters of partition 0: ``count(completed=3)`` is for task ``t.work``."""
        for what, value in counters.items():
            self.client.hincrby(self.pulse.keys.partition(0).counters, f"{what}:t.work", value)


@pytest.fixture
def make_desk(pulse: Callable[..., Denyut]) -> Callable[..., Desk]:
    return lambda **conf: Desk(pulse(**conf))


@pytest.fixture
def invoke() -> Callable[..., Result]:
    """``invoke(app, *args)`` is ``celery -A APP denyut ARGS`` in this process."""
    return run_command


@pytest.fixture
def cli(desk: Desk) -> Callable[..., Result]:
    """Run ``celery -A <the desk's app> denyut ...`` in this process."""
    return lambda *args: run_command(desk.pulse.app, *args)


@pytest.fixture
def desk(make_desk: Callable[..., Desk]) -> Desk:
    return make_desk()
