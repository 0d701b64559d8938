"""Jobs a second: what a worker gets through, and what a producer gets in."""

from __future__ import annotations

import os
import signal
import time
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_app import make_app
from nodes.worker import CeleryWorker
from pairs import Comparison, compare, compare_all
from support import children

if TYPE_CHECKING:
    from redis import Redis

TASKS = 600  # a round of a worker: about a second
CALLS = 300  # a round of a producer
MANY = 1500  # a round of one that enqueues many at once
TIMEOUT = 60.0


def worker_throughput(
    url: str, client: Redis, folder: Path, server: int, seconds: float
) -> dict[str, Comparison]:
    """No-op tasks of a worker with two pool processes, results stored: Denyut against bare.

    Returns tasks a second, and tasks for a second of CPU: of the worker's processes and of the server.
    """
    workers = {kind: start(kind, url, folder) for kind in ("denyut", "bare")}
    try:
        rounds = {kind: Round(make_app(kind), worker, client, server) for kind, worker in workers.items()}
        return compare_all(rounds["denyut"], rounds["bare"], seconds=seconds)
    finally:
        for worker in workers.values():
            worker.kill_all()


def enqueue_throughput(client: Redis, seconds: float) -> dict[str, Comparison]:
    """Calls of ``.delay()`` a second: with a new key, with a key that is taken, and without a key."""
    bare, ours = make_app("bare"), make_app("denyut")
    numbers = count()
    queues = [f"bench.{kind}.nobody" for kind in ("bare", "denyut")]

    def rate(app: Any, *, fixed: int | None = None) -> float:
        task = app.tasks["bench.keyed"]
        begin = time.perf_counter()
        for _ in range(CALLS):
            task.delay(next(numbers) if fixed is None else fixed)
        took = time.perf_counter() - begin
        client.delete(*queues)
        return CALLS / took

    def unkeyed() -> float:
        task = ours.tasks["bench.nothing"]
        begin = time.perf_counter()
        for _ in range(CALLS):
            task.apply_async(queue=queues[1])
        took = time.perf_counter() - begin
        client.delete(*queues)
        return CALLS / took

    measured = {
        "enqueue_keyed": lambda: rate(ours),
        "enqueue_duplicate": lambda: rate(ours, fixed=-1),
        "enqueue_unkeyed": unkeyed,
    }
    part = seconds / len(measured)
    return {name: compare(run, lambda: rate(bare), seconds=part) for name, run in measured.items()}


def bulk_throughput(client: Redis, seconds: float) -> dict[str, Comparison]:
    """Jobs a second of ``enqueue_many``, against a loop of ``.delay()``: without and with new keys."""
    app, numbers, queue = make_app("denyut"), count(), "bench.denyut.nobody"

    def rates(name: str) -> Comparison:
        task = app.tasks[name]

        def many() -> float:
            calls = [((next(numbers),), None, {"queue": queue}) for _ in range(MANY)]
            begin = time.perf_counter()
            app.denyut.jobs.enqueue_many(task, calls)
            took = time.perf_counter() - begin
            client.delete(queue)
            return MANY / took

        def loop() -> float:
            begin = time.perf_counter()
            for _ in range(CALLS):
                task.apply_async((next(numbers),), queue=queue)
            took = time.perf_counter() - begin
            client.delete(queue)
            return CALLS / took

        return compare(many, loop, seconds=seconds / 2)

    return {"bulk_unkeyed": rates("bench.number"), "bulk_keyed": rates("bench.keyed")}


class Round:
    """Fills the queue while the worker is stopped, lets it go, and measures until all results are there."""

    def __init__(self, app: Any, worker: CeleryWorker, client: Redis, server: int) -> None:
        self.app, self.worker, self.client, self.server = app, worker, client, server

    def __call__(self) -> dict[str, float]:
        self.worker.send_signal(signal.SIGSTOP)
        task = self.app.tasks["bench.nothing"]
        keys = [self.app.backend.get_key_for_task(task.delay().id) for _ in range(TASKS)]
        worker, server = self._cpu()
        self.worker.send_signal(signal.SIGCONT)
        done_first, begin = self._wait(keys, 1)
        done_last, end = self._wait(keys, TASKS)
        self.settle()
        worker_after, server_after = self._cpu()
        return {
            "jobs": (done_last - done_first) / (end - begin),
            "jobs_worker_cpu": TASKS / (worker_after - worker),
            "jobs_server_cpu": TASKS / (server_after - server),
        }

    def settle(self) -> None:
        """Wait for what comes after the results, and costs CPU as well."""

    def _cpu(self) -> tuple[float, float]:
        pids = [self.worker.pid, *children(self.worker.pid)]
        return sum(map(_cpu_of, pids)), _cpu_of(self.server)

    def _wait(self, keys: list[bytes], wanted: int) -> tuple[int, float]:
        deadline = time.monotonic() + TIMEOUT
        while (done := int(self.client.exists(*keys))) < wanted:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{done} of {TASKS} tasks in {TIMEOUT:g} s:\n{self.worker.logs()[-2000:]}")
            time.sleep(0.05)  # looking at 600 keys is work, too
        return done, time.perf_counter()


def _cpu_of(pid: int) -> float:
    """Return the CPU seconds of one process, all its threads together."""
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def start(kind: str, url: str, folder: Path) -> CeleryWorker:
    """Start the worker of the app ``kind``."""
    stores = {name: value for name, value in os.environ.items() if name.startswith("BENCH_")}
    worker = CeleryWorker(
        "bench.bench_app",
        folder,
        env={**stores, "CELERY_BROKER_URL": url, "CELERY_RESULT_BACKEND": url, "BENCH_KIND": kind},
        name=f"{kind}@bench",
    )
    return worker.start()
