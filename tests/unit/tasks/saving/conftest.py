"""Benches with a job store, and what Redis and the store say of the same job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import select

from denyut.database.tables import tables
from denyut.tasks.saving.applier import Applier
from denyut.tasks.saving.snapshot import from_text


class Shelves:
    """A bench with a job store; the rows in it."""

    def __init__(self, bench: Any) -> None:
        self.bench = bench
        self.pulse = bench.pulse
        self.client = bench.pulse.store.client

        @bench.task(name="t.work")
        def work(bad: bool = False) -> int:
            self.inside()
            if bad:
                raise ValueError("bad")
            return 3

        self.work = work
        self.inside: Callable[[], Any] = lambda: None  # what is to happen while a job runs

    def row(self, job_id: str) -> Any:
        """The row of a job; None if there is none."""
        jobs, _ = tables()
        with self.pulse.database.begin() as connection:
            return connection.execute(select(jobs).where(jobs.c.id == job_id)).mappings().one_or_none()

    def stories(self, job_id: str) -> list[str]:
        """The types of the events that the store has of a job, in order."""
        _, events = tables()
        found = select(events.c.type).where(events.c.job_id == job_id).order_by(events.c.ms, events.c.seq)
        with self.pulse.database.begin() as connection:
            return list(connection.execute(found).scalars())

    def record(self, job_id: str) -> dict[bytes, bytes]:
        """The record in Redis, without what only Redis needs to know."""
        found = self.client.hgetall(self.pulse.keys.job(job_id).record)
        return {name: value for name, value in found.items() if name != b"copied"}

    def stored(self, job_id: str) -> dict[bytes, bytes]:
        """The record in the store."""
        found = from_text(self.row(job_id)["record"])
        return {name: value for name, value in found.items() if name != b"copied"}

    def since(self, job_id: str) -> float | None:
        """Since when the store has not seen a change of a job."""
        keys = self.pulse.keys
        since: float | None = self.client.zscore(keys.partition(keys.partition_of(job_id)).outbox, job_id)
        return since

    def ttl(self, job_id: str) -> int:
        """Milliseconds until the record is forgotten; -1: never, -2: it is."""
        return int(self.client.pttl(self.pulse.keys.job(job_id).record))


@pytest.fixture(autouse=True)
def appliers(monkeypatch):
    """Whatever applier a test makes ends with it."""
    made: list[Applier] = []
    make = Applier.__init__

    def remembered(self: Applier, *args: Any) -> None:
        make(self, *args)
        made.append(self)

    monkeypatch.setattr(Applier, "__init__", remembered)
    yield
    for each in made:
        each.close()


@pytest.fixture
def make_shelves(make_bench, tmp_path):
    def make(url: str | None = None, **conf: Any) -> Shelves:
        made = make_bench(denyut_database_url=url or f"sqlite:///{tmp_path}/jobs.db", **conf)
        made.pulse.database.create()
        return Shelves(made)

    return make


@pytest.fixture
def shelves(make_shelves):
    return make_shelves()
