"""Jobs a second: what a worker gets through, and what a producer gets in."""

from __future__ import annotations

import signal
import time
from itertools import count
from typing import TYPE_CHECKING, Any

from bench_app import make_app
from nodes.worker import CeleryWorker
from pairs import Comparison, compare

if TYPE_CHECKING:
    from pathlib import Path

    from redis import Redis

TASKS = 600  # a round of a worker: about a second
CALLS = 300  # a round of a producer
TIMEOUT = 60.0


def worker_throughput(url: str, client: Redis, folder: Path, seconds: float) -> Comparison:
    """No-op tasks a second of a worker with two pool processes, results stored: Denyut against bare."""
    workers = {kind: _start(kind, url, folder) for kind in ("denyut", "bare")}
    try:
        rounds = {kind: _Round(make_app(kind), worker, client) for kind, worker in workers.items()}
        return compare(rounds["denyut"], rounds["bare"], seconds=seconds)
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


class _Round:
    """Fills the queue while the worker is stopped, lets it go, and measures until all results are there."""

    def __init__(self, app: Any, worker: CeleryWorker, client: Redis) -> None:
        self.app, self.worker, self.client = app, worker, client

    def __call__(self) -> float:
        self.worker.send_signal(signal.SIGSTOP)
        task = self.app.tasks["bench.nothing"]
        keys = [self.app.backend.get_key_for_task(task.delay().id) for _ in range(TASKS)]
        self.worker.send_signal(signal.SIGCONT)
        done_first, begin = self._wait(keys, 1)
        done_last, end = self._wait(keys, TASKS)
        return (done_last - done_first) / (end - begin)

    def _wait(self, keys: list[bytes], wanted: int) -> tuple[int, float]:
        deadline = time.monotonic() + TIMEOUT
        while (done := int(self.client.exists(*keys))) < wanted:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{done} of {TASKS} tasks in {TIMEOUT:g} s:\n{self.worker.logs()[-2000:]}")
            time.sleep(0.025)  # looking at 600 keys is work, too
        return done, time.perf_counter()


def _start(kind: str, url: str, folder: Path) -> CeleryWorker:
    worker = CeleryWorker(
        "bench.bench_app",
        folder,
        env={"CELERY_BROKER_URL": url, "CELERY_RESULT_BACKEND": url, "BENCH_KIND": kind},
        name=f"{kind}@bench",
    )
    return worker.start()
