"""``make bench``: what Denyut costs, as ratios measured in pairs on this machine.

How to read it: docs/benchmarks.md. The last line is JSON.

    python tests/bench/run.py [--seconds 100]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # nodes, support

from applying import apply_throughput
from bench_app import make_app
from committing import commit_throughput
from nodes.valkey import PrivateValkey
from storing import store_throughput
from throughput import enqueue_throughput, worker_throughput

SHARES = {"jobs": 0.35, "enqueue": 0.2, "store": 0.25, "commit": 0.08, "median": 0.12}
TEXTS = {
    "jobs": "jobs through a worker (no-op, prefork 2, results stored), against bare Celery",
    "jobs_worker_cpu": "the same jobs: how many one second of the worker's CPU is enough for",
    "jobs_server_cpu": "the same jobs: how many one second of the server's CPU is enough for",
    "enqueue_unkeyed": ".delay() without a key, against bare Celery",
    "enqueue_keyed": ".delay() with a new key, against bare Celery",
    "enqueue_duplicate": ".delay() with a key that is taken, against bare Celery",
    "jobs_sqlite": "jobs through a worker with a job store in SQLite, against none",
    "jobs_worker_cpu_sqlite": "the same jobs: how many one second of the worker's CPU is enough for",
    "jobs_server_cpu_sqlite": "the same jobs: how many one second of the server's CPU is enough for",
    "enqueue_sqlite_through": ".delay() that is in SQLite when it returns, against no job store",
    "jobs_postgresql": "jobs through a worker with a job store in PostgreSQL, against none",
    "jobs_worker_cpu_postgresql": "the same jobs: how many one second of the worker's CPU is enough for",
    "jobs_server_cpu_postgresql": "the same jobs: how many one second of the server's CPU is enough for",
    "enqueue_postgresql_through": ".delay() that is in PostgreSQL when it returns, against no job store",
    "commit": "job.commit(session) with an effect in PostgreSQL, against session.commit()",
    "median_apply": "events applied to a median (batches of 1000), against raw ZADD NX",
}


def main() -> None:
    """Run all benches and print what came out."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=100.0, help="about how long to measure (100)")
    seconds = parser.parse_args().seconds
    load = os.getloadavg()[0]
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load {load:.1f} before the start\n")
    with tempfile.TemporaryDirectory(prefix="denyut-") as name:
        folder = Path(name)
        server = PrivateValkey(folder)
        server.start()
        os.environ |= {"CELERY_BROKER_URL": server.url, "CELERY_RESULT_BACKEND": server.url}
        try:
            with server.client() as client:
                share = seconds * SHARES["jobs"]
                results = worker_throughput(server.url, client, folder, server.pid, share)
                results |= enqueue_throughput(client, seconds * SHARES["enqueue"])
                share = seconds * SHARES["store"]
                results |= store_throughput(server.url, client, folder, server.pid, share)
                share = seconds * SHARES["commit"]
                results["commit"] = commit_throughput(make_app("denyut"), share)
                results["median_apply"] = apply_throughput(server.url, client, seconds * SHARES["median"])
        finally:
            server.kill()
    for key, result in results.items():
        print(f"{TEXTS[key]}\n    {result}")
    print(json.dumps({key: result.as_dict() for key, result in results.items()} | {"load": round(load, 2)}))


if __name__ == "__main__":
    main()
