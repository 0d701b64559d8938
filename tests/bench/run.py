"""``make bench``: what Denyut costs, as ratios measured in pairs on this machine.

How to read it: docs/benchmarks.md. The last line is JSON.

    python tests/bench/run.py [--seconds 100] [--stored 1000000] [--only PART]...
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # nodes, support

from applying import apply_throughput
from beating import beat_throughput
from bench_app import make_app
from committing import commit_throughput
from million import stored_throughput
from nodes.valkey import PrivateValkey
from pairs import Comparison
from storing import store_throughput
from throughput import bulk_throughput, enqueue_throughput, worker_throughput

SHARES = {
    "jobs": 0.27,
    "beat": 0.03,
    "enqueue": 0.15,
    "bulk": 0.07,
    "store": 0.2,
    "stored": 0.12,
    "commit": 0.06,
    "median": 0.1,
}
TEXTS = {
    "jobs": "jobs through a worker (no-op, prefork 2, results stored), against bare Celery",
    "jobs_worker_cpu": "the same jobs: how many one second of the worker's CPU is enough for",
    "jobs_server_cpu": "the same jobs: how many one second of the server's CPU is enough for",
    "enqueue_unkeyed": ".delay() without a key, against bare Celery",
    "enqueue_keyed": ".delay() with a new key, against bare Celery",
    "enqueue_duplicate": ".delay() with a key that is taken, against bare Celery",
    "beat": "leases renewed by a beat of 1,000 jobs, against the same commands raw in one pipeline",
    "track": "items of track(), against a generator that passes them on",
    "bulk_unkeyed": "jobs of enqueue_many, against a loop of .delay()",
    "bulk_keyed": "jobs of enqueue_many with new keys, against a loop of .delay() with new keys",
    "jobs_sqlite": "jobs through a worker with a job store in SQLite, against none",
    "jobs_worker_cpu_sqlite": "the same jobs: how many one second of the worker's CPU is enough for",
    "jobs_server_cpu_sqlite": "the same jobs: how many one second of the server's CPU is enough for",
    "enqueue_sqlite_through": ".delay() that is in SQLite when it returns, against no job store",
    "jobs_postgresql": "jobs through a worker with a job store in PostgreSQL, against none",
    "jobs_worker_cpu_postgresql": "the same jobs: how many one second of the worker's CPU is enough for",
    "jobs_server_cpu_postgresql": "the same jobs: how many one second of the server's CPU is enough for",
    "enqueue_postgresql_through": ".delay() that is in PostgreSQL when it returns, against no job store",
    "claim_sqlite_stored": "claims with 1,000,000 jobs in SQLite, against 10,000",
    "claim_lost_sqlite_stored": "claims of jobs that Redis does not know (the store is asked), the same",
    "list_sqlite_stored": "pages of 100 jobs, of any filter and anywhere in the list, the same",
    "write_sqlite_stored": "jobs written by the applier (500 in a transaction), the same",
    "purge_sqlite_stored": "jobs purged (500 in a transaction), the same",
    "commit": "job.commit(session) with an effect in PostgreSQL, against session.commit()",
    "median_apply": "events applied to a median (batches of 1000), against raw ZADD NX",
}


def main() -> None:
    """Run all benches and print what came out."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=100.0, help="about how long to measure (100)")
    parser.add_argument("--stored", type=int, default=1_000_000, help="jobs in the large store (1,000,000)")
    parser.add_argument("--only", action="append", choices=SHARES, help="this part; may be given again")
    given = parser.parse_args()
    load = os.getloadavg()[0]
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load {load:.1f} before the start\n")
    results: dict[str, Comparison] = {}
    told: dict[str, float] = {"load": round(load, 2)}
    with tempfile.TemporaryDirectory(prefix="denyut-") as name:
        folder = Path(name)
        server = PrivateValkey(folder)
        server.start()
        os.environ |= {"CELERY_BROKER_URL": server.url, "CELERY_RESULT_BACKEND": server.url}
        try:
            with server.client() as client:
                parts = _parts(server, client, folder, given.stored, told)
                for part in given.only or SHARES:
                    results |= parts[part](given.seconds * SHARES[part])
        finally:
            server.kill()
    for key, result in results.items():
        print(f"{TEXTS[key]}\n    {result}")
    if "longest_purge_ms" in told:
        print(
            f"the longest transaction that purged 500 of {given.stored:,} jobs: {told['longest_purge_ms']} ms"
        )
    print(json.dumps({key: result.as_dict() for key, result in results.items()} | told))


def _parts(
    server: PrivateValkey, client: Any, folder: Path, stored: int, told: dict[str, float]
) -> dict[str, Callable[[float], dict[str, Comparison]]]:
    """Return what each part measures within so many seconds, by the names of ``SHARES``."""

    def many_stored(seconds: float) -> dict[str, Comparison]:
        urls = {name: f"sqlite:///{folder}/{name}.db" for name in ("large", "small")}
        found = stored_throughput("sqlite", urls, stored, seconds)
        told["longest_purge_ms"] = round(found.longest_purge_ms, 1)
        return found.results

    return {
        "jobs": lambda seconds: worker_throughput(server.url, client, folder, server.pid, seconds),
        "enqueue": lambda seconds: enqueue_throughput(client, seconds),
        "beat": lambda seconds: beat_throughput(server.url, seconds),
        "bulk": lambda seconds: bulk_throughput(client, seconds),
        "store": lambda seconds: store_throughput(server.url, client, folder, server.pid, seconds),
        "stored": many_stored,
        "commit": lambda seconds: {"commit": commit_throughput(make_app("denyut"), seconds)},
        "median": lambda seconds: {"median_apply": apply_throughput(server.url, client, seconds)},
    }


if __name__ == "__main__":
    main()
