"""What an outbox costs: latency from commit to queue, an idle relay, the rate of a relay, an enqueue.

    python tests/bench/posting.py

The relay runs in a process of its own, as in a worker. The last line is JSON.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # nodes, support

from celery import Celery
from nodes.postgres import PrivatePostgres, find_programs
from nodes.valkey import PrivateValkey
from sqlalchemy import create_engine
from sqlalchemy.orm import Session
from support import die_with_parent

from denyut import Denyut
from denyut.database.outbox import metadata
from denyut.tasks.node import new_node
from denyut.tasks.outbox.places import places
from denyut.tasks.outbox.relay import Relay

COMMITS = 200
IDLE = 10.0
BACKLOG = 4000


class Bench:
    """An app with an outbox in one database."""

    def __init__(self, broker: str, url: str) -> None:
        self.app = Celery("posting", broker=broker, backend=broker, set_as_current=False)
        self.app.conf.update(denyut_outbox_url=url, task_default_queue="posting")
        self.pulse = Denyut(self.app)
        self.engine = create_engine(url)
        metadata().create_all(self.engine)
        self.client = self.pulse.store.client

        @self.app.task(name="t.nothing", shared=False, ignore_result=True)
        def nothing() -> None:
            """It is not run."""

        self.nothing = nothing

    def commit(self, many: int = 1) -> float:
        """Enqueue in one transaction; returns when its commit began."""
        with Session(self.engine) as session:
            for _ in range(many):
                self.pulse.outbox.enqueue(session, self.nothing.s())
            begin = time.perf_counter()
            session.commit()
        return begin

    def latencies(self) -> list[float]:
        """Milliseconds from the begin of a commit to its message being received, of single commits."""
        found = []
        for _ in range(COMMITS):
            begin = self.commit()
            assert self.client.brpop(["posting"], timeout=5) is not None
            found.append((time.perf_counter() - begin) * 1000)
            time.sleep(0.02)  # the relay is at rest again
        return found

    def drain_rate(self) -> float:
        """Rows a second of a relay with a backlog."""
        self.commit(BACKLOG)
        begin = time.perf_counter()
        while self.client.llen("posting") < BACKLOG:
            time.sleep(0.005)
        self.client.delete("posting")
        return BACKLOG / (time.perf_counter() - begin)

    def enqueue_rates(self, many: int = 1000) -> tuple[float, float]:
        """Enqueues a second in one transaction, which is rolled back, and ``.delay()`` a second."""
        begin = time.perf_counter()
        with Session(self.engine) as session:
            for _ in range(many):
                self.pulse.outbox.enqueue(session, self.nothing.s())
            session.rollback()
        kept = many / (time.perf_counter() - begin)
        begin = time.perf_counter()
        for _ in range(many):
            self.nothing.delay()
        sent = many / (time.perf_counter() - begin)
        self.client.delete("posting")
        return kept, sent


def relay(broker: str, url: str) -> None:
    """Be the relay of a worker."""
    bench = Bench(broker, url)
    new_node("bench@relay")
    each = Relay(bench.pulse, places(bench.pulse)[0])
    each.start()
    time.sleep(3600)


def cpu_ms(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")


def measure(broker: str, url: str) -> dict[str, float]:
    bench = Bench(broker, url)
    bench.client.flushall()
    kept, sent = bench.enqueue_rates()
    process = subprocess.Popen(
        [sys.executable, __file__, broker, url], env=os.environ, preexec_fn=die_with_parent
    )
    try:
        bench.commit()
        assert bench.client.brpop(["posting"], timeout=20) is not None
        time.sleep(2)  # it is at rest
        found = sorted(bench.latencies())
        time.sleep(2)
        before, server = cpu_ms(process.pid), bench.client.info("cpu")
        time.sleep(IDLE)
        idle = (cpu_ms(process.pid) - before) / IDLE
        after = bench.client.info("cpu")
        used = sum(after[name] - server[name] for name in ("used_cpu_user", "used_cpu_sys"))
        rates = [bench.drain_rate() for _ in range(3)]
    finally:
        process.kill()
        process.wait()
    return {
        "latency_ms_median": statistics.median(found),
        "latency_ms_p99": found[int(len(found) * 0.99)],
        "idle_relay_cpu_ms_per_s": idle,
        "idle_server_cpu_ms_per_s": used * 1000 / IDLE,
        "relay_rows_per_s": statistics.median(rates),
        "enqueue_per_s": kept,
        "delay_per_s": sent,
    }


def main() -> None:
    if len(sys.argv) == 3:
        relay(*sys.argv[1:])
        return
    programs = find_programs()
    assert programs is not None, "PostgreSQL is not there"
    results: dict[str, Any] = {"load": os.getloadavg()[0]}
    with tempfile.TemporaryDirectory(prefix="denyut-") as name:
        server, postgres = PrivateValkey(Path(name)), PrivatePostgres()
        server.start()
        try:
            postgres.start(programs)
            results["postgresql"] = measure(server.url, postgres.database())
            results["sqlite"] = measure(server.url, f"sqlite:///{name}/app.db")
        finally:
            postgres.stop()
            server.kill()
    for database in ("postgresql", "sqlite"):
        for what, value in results[database].items():
            print(f"{database}: {what} {value:.2f}")
    print(json.dumps(results))


if __name__ == "__main__":
    main()
