"""What a job store costs: the same jobs with a database and without one, both of Denyut."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench_app import make_app
from nodes.postgres import PrivatePostgres, find_programs
from pairs import Comparison, compare, compare_all
from throughput import CALLS, TIMEOUT, Round, start

if TYPE_CHECKING:
    from redis import Redis

KINDS = ("sqlite", "postgresql")


def store_throughput(
    url: str, client: Redis, folder: Path, server: int, seconds: float
) -> dict[str, Comparison]:
    """Jobs through a worker, and calls of ``.delay()``, with SQLite and with PostgreSQL, against no store.

    With ``behind`` a thread of the worker writes, with ``through`` the producer writes each enqueue.
    """
    programs = find_programs()
    postgres = PrivatePostgres()
    try:
        assert programs is not None, "PostgreSQL is in the extra 'test'"
        postgres.start(programs)
        os.environ["BENCH_SQLITE"] = f"sqlite:///{folder}/jobs.db"
        os.environ["BENCH_POSTGRESQL"] = postgres.database()
        part = seconds / (len(KINDS) * 3)
        found: dict[str, Comparison] = {}
        for kind in KINDS:
            make_app(kind).denyut.database.create()
            found |= _jobs(kind, url, client, folder, server, 2 * part)
            found[f"enqueue_{kind}_through"] = _enqueue(f"{kind}-through", client, part)
        return found
    finally:
        postgres.stop()


def _jobs(
    kind: str, url: str, client: Redis, folder: Path, server: int, seconds: float
) -> dict[str, Comparison]:
    workers = {each: start(each, url, folder) for each in (kind, "denyut")}
    try:
        stored = _Stored(make_app(kind), workers[kind], client, server)
        without = Round(make_app("denyut"), workers["denyut"], client, server)
        return {
            f"{name}_{kind}": result for name, result in compare_all(stored, without, seconds=seconds).items()
        }
    finally:
        for worker in workers.values():
            worker.kill_all()


def _enqueue(kind: str, client: Redis, seconds: float) -> Comparison:
    apps = {"stored": make_app(kind), "without": make_app("denyut")}

    def rate(which: str) -> float:
        task, queue = apps[which].tasks["bench.nothing"], f"bench.{which}.nobody"
        begin = time.perf_counter()
        for _ in range(CALLS):
            task.apply_async(queue=queue)
        took = time.perf_counter() - begin
        client.delete(queue)
        return CALLS / took

    try:
        return compare(lambda: rate("stored"), lambda: rate("without"), seconds=seconds)
    finally:
        apps["stored"].denyut.saving.close()
        apps["stored"].denyut.database.close()


class _Stored(Round):
    """A round that is over when the store has all its jobs."""

    def settle(self) -> None:
        """Wait until nothing is on the index."""
        outboxes = [part.outbox for part in self.app.denyut.keys.all_partitions()]
        deadline = time.monotonic() + TIMEOUT
        while self.client.exists(*outboxes):
            if time.monotonic() > deadline:
                raise TimeoutError("the store has not got all jobs")
            time.sleep(0.02)
