"""How late scheduled jobs are, how long a second with ten thousand of them takes, what standing by costs.

python tests/bench/lateness.py [--workers 3] [--jobs 1000] [--burst 10000]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from pathlib import Path
from statistics import quantiles
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # nodes, support

from nodes.valkey import PrivateValkey
from nodes.worker import CeleryWorker
from support import wait_until

if TYPE_CHECKING:
    from redis import Redis

WITHIN = 10.0


def lateness(app: Any, jobs: int) -> dict[str, Any]:
    """Return how late ``jobs`` jobs, due at random times within ten seconds, were published and started."""
    chance = random.Random(1)
    before = _buckets(app)
    task = app.tasks["bench.nothing"]
    ids = [task.apply_async(countdown=chance.uniform(0.0, WITHIN)).id for _ in range(jobs)]
    _wait_for_all(app, ids)
    started = sorted(_read(app, ids, "started_at", "due"))
    buckets = {le: count - before.get(le, 0) for le, count in _buckets(app).items()}
    return {"jobs": jobs, "started_ms": _percentiles(started), "published_within": buckets}


def burst(app: Any, jobs: int) -> dict[str, Any]:
    """Return how long it takes until ``jobs`` jobs that are due at one moment are all published."""
    task, client = app.tasks["bench.nothing"], app.denyut.store.client
    with app.producer_pool.acquire(block=True) as producer:
        ids = [
            task.apply_async(countdown=3600, queue="bench.nobody", producer=producer).id for _ in range(jobs)
        ]
    due = time.time() + 3
    pipe = client.pipeline(transaction=False)
    for job_id in ids:  # all at one moment, which no enqueue one by one could do
        job, micros = app.denyut.keys.job(job_id), round(due * 1e6)
        pipe.hset(job.record, "due", micros)
        pipe.zadd(app.denyut.keys.partition(job.partition).schedule, {job_id: micros})
    pipe.execute()
    while client.llen("bench.nobody") < jobs:
        time.sleep(0.01)
    took = time.time() - due
    client.delete("bench.nobody")
    for part in app.denyut.keys.all_partitions():
        client.delete(part.queued)
    return {"jobs": len(ids), "seconds": round(took, 2), "per_s": round(jobs / took)}


def idle(client: Redis, pids: list[int], seconds: float) -> dict[str, Any]:
    """Return commands of Redis and CPU of each worker's main process while nothing happens."""
    commands, cpu, start = _commands(client), [_cpu(pid) for pid in pids], time.monotonic()
    time.sleep(seconds)
    took = time.monotonic() - start
    now = _commands(client)
    calls = {name: round((n - commands.get(name, 0)) / took, 1) for name, n in now.items()}
    return {
        "commands_per_s": {name: n for name, n in sorted(calls.items()) if n >= 1},
        "cpu_percent": [round((_cpu(pid) - was) / took * 100, 2) for pid, was in zip(pids, cpu, strict=True)],
    }


def _percentiles(values: list[float]) -> dict[str, float]:
    cuts = quantiles(values, n=100)
    return {"p50": round(cuts[49], 1), "p99": round(cuts[98], 1), "max": round(values[-1], 1)}


def _buckets(app: Any) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in app.denyut.keys.all_partitions():
        for name, count in app.denyut.store.client.hgetall(part.counters).items():
            if name.startswith(b"late_us_bucket:"):
                le = name.decode().partition(":")[2]
                found[le] = found.get(le, 0) + int(count)
    return found


def _wait_for_all(app: Any, ids: list[str]) -> None:
    wait_until(
        lambda: all(state == b"COMPLETED" for state in _raw(app, ids, "state")), 120, "all jobs", every=0.5
    )


def _read(app: Any, ids: list[str], field: str, minus: str) -> list[float]:
    times = zip(_raw(app, ids, field), _raw(app, ids, minus), strict=True)
    return [(int(a or 0) - int(b or 0)) / 1000 for a, b in times]


def _raw(app: Any, ids: list[str], field: str) -> list[bytes | None]:
    pipe = app.denyut.store.client.pipeline(transaction=False)
    for job_id in ids:
        pipe.hget(app.denyut.keys.job(job_id).record, field)
    return list(pipe.execute())


def _commands(client: Redis) -> dict[str, int]:
    stats: Any = client.info("commandstats")
    return {name.removeprefix("cmdstat_"): int(row["calls"]) for name, row in stats.items()}


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measure all three, with as many workers as asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--burst", type=int, default=10_000)
    parser.add_argument("--idle", type=float, default=10.0, help="seconds")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="denyut-") as name:
        server = PrivateValkey(Path(name))
        server.start()
        env = {"CELERY_BROKER_URL": server.url, "CELERY_RESULT_BACKEND": server.url}
        os.environ |= env
        nodes = [
            CeleryWorker("bench.bench_app", Path(name), env={**env, "BENCH_KIND": "denyut"}, concurrency=2)
            for _ in range(options.workers)
        ]
        try:
            for node in nodes:
                node.start()
            app = nodes[0].app
            with server.client() as client:
                found = {"load": os.getloadavg()[0], "workers": options.workers}
                found["idle"] = idle(client, [node.pid for node in nodes], options.idle)
                found["lateness"] = lateness(app, options.jobs)
                found["burst"] = burst(app, options.burst) if options.burst else None
        finally:
            for node in nodes:
                node.kill_all()
            server.kill()
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
