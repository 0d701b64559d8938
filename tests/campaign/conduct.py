"""One campaign: starts everything, kills, restarts, waits for the end, and collects the evidence."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from campaign.chaos import Chaos
from campaign.judge import Evidence, Verdict, judge, read_records
from campaign.plan import PARTS, make_plan
from campaign.producer import read_log
from faults.points import Faults, kills
from nodes.valkey import PrivateValkey
from nodes.worker import TESTS, CeleryWorker, fresh_module
from sqlalchemy import create_engine, func, select
from support import die_with_parent

from denyut.tasks.effects import create_effects_table, effects

#: How likely a pass of a point kills. A worker passes about twenty of them a job.
WORKER_RATES = {"": 0.001, "ack": 0.0002, "recover": 0.002, "bury": 0.05, "failure": 0.03, "in body": 0.01}
PRODUCER_RATES = {"": 0.0, "reserve": 0.0004, "publish": 0.0004}
MAX_CRASHES = 3


class Campaign:
    """A campaign of ``size`` jobs on a private Valkey and an empty PostgreSQL database.

    Args:
        server: of records, messages and results.
        database: its address.
        folder: for logs.
        seed: of the plan, the kills from outside and those from inside.
        size: how many jobs.
        every: mean number of effects between two kills from outside.
        workers: how many nodes, of two pool processes each.
        lease_ttl: in seconds.
        worker_rates: see :data:`WORKER_RATES`.
    """

    def __init__(
        self,
        server: PrivateValkey,
        database: str,
        folder: Path,
        *,
        seed: int,
        size: int,
        every: float,
        workers: int = 2,
        lease_ttl: float = 3.0,
        worker_rates: dict[str, float] | None = None,
    ) -> None:
        self.server, self.folder, self.plan_seed = server, folder, seed
        self.plan = make_plan(seed, size)
        self.size = size
        self.log = folder / "kills.log"
        rates = {"": worker_rates or WORKER_RATES, "producer": PRODUCER_RATES}
        self.env = {
            "CELERY_BROKER_URL": server.url,
            "DENYUT_REDIS_URL": server.url,
            "DATABASE_URL": database,
            "LEASE_TTL": str(lease_ttl),
            "MAX_CRASHES": str(MAX_CRASHES),
        }
        self.faulty = {**self.env, **Faults.to_env(str(seed), rates, self.log)}
        self.module = fresh_module("apps.campaign", self.env)
        self.pulse: Any = self.module.app.denyut
        self.engine = create_engine(database)
        self.chaos = Chaos(seed, every, pause=2 * lease_ttl)
        self.nodes = [
            CeleryWorker("apps.campaign", folder, env=self.faulty, name=f"node{i}@campaign")
            for i in range(workers)
        ]
        self.producers: list[subprocess.Popen[bytes] | None] = [None] * len(self.plan.orders)
        self.restarts: Counter[str] = Counter()
        #: For each node that is starting, where its log begins.
        self._starting: dict[str, int] = {}
        self.parts: dict[str, str] = {}
        self.bodies: dict[str, str] = {}
        self.took = 0.0
        self.evidence: Evidence
        self.verdict: Verdict

    @property
    def kills(self) -> Counter[str]:
        """All kills: those from inside by point, those from outside by kind."""
        inside = Counter(point for _, point in kills(self.log))
        return inside + Counter({f"outside: {what}": times for what, times in self.chaos.kills.items()})

    @property
    def duplicates(self) -> int:
        """How many enqueues were answered with a job that was there."""
        return sum(known for i in range(len(self.producers)) for _, _, known in read_log(self._answers(i)))

    def run(self, seconds: float, tell: Callable[[str], Any] = lambda _: None) -> None:
        """Run it to its end, or for ``seconds``, and judge it."""
        begin = time.monotonic()
        self.module.metadata.create_all(self.engine)
        create_effects_table(self.engine)
        try:
            for node in self.nodes:
                self._start(node)
            self._until_done(begin + seconds, tell)
        finally:
            self.chaos.end()
            for node in self.nodes:
                node.kill_all()
            for producer in self.producers:
                if producer is not None:
                    producer.kill()
                    producer.wait()
        self.took = time.monotonic() - begin
        self.evidence = self._collect()
        self.verdict = judge(self.evidence)
        self._close()

    def _until_done(self, deadline: float, tell: Callable[[str], Any]) -> None:
        chords = iter(self.plan.chords)
        quiet, next_look, done = 0, 0.0, 0
        while quiet < 2:
            now = time.monotonic()
            if now > deadline:
                return
            sending = self._keep_alive()
            self.chaos.step([node for node in self.nodes if self._is_up(node)], done)
            if (n := next(chords, None)) is not None:
                self._send_chord(n)
                sending = True
            if now >= next_look:
                next_look = now + 1.0
                waiting, done = self._waiting(), self._done()
                tell(f"{done:>6} effects, {waiting:>6} waiting, {self.kills.total():>5} kills")
                quiet = quiet + 1 if not sending and not waiting else 0
            time.sleep(0.02)

    def _keep_alive(self) -> bool:
        """Start again whoever has died; return whether there is still something to send."""
        for node in self.nodes:
            if not node.running:
                node.kill_all()
                self._start(node)
                self.restarts["worker"] += 1
        sending = False
        for i, producer in enumerate(self.producers):
            code = None if producer is None else producer.poll()
            if producer is None or (code is not None and code != 0):
                if code is not None:
                    assert code < 0, f"producer {i} ended with {code}: {self.folder / f'producer{i}.log'}"
                    self.restarts["producer"] += 1
                self.producers[i] = self._start_producer(i)
            sending |= code != 0
        return sending

    def _start(self, node: CeleryWorker) -> None:
        self._starting[node.name] = len(node.logs())
        node.start(wait=False)

    def _is_up(self, node: CeleryWorker) -> bool:
        """Whether a node consumes. Celery gives up if a pool process dies while it starts."""
        offset = self._starting.get(node.name)
        if offset is not None and f"{node.name} ready." in node.logs()[offset:]:
            del self._starting[node.name]
        return node.running and node.name not in self._starting

    def _start_producer(self, i: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, str(TESTS / "campaign" / "producer.py")]
        command += [str(self.plan_seed), str(self.size), str(i), str(self._answers(i))]
        with (self.folder / f"producer{i}.log").open("ab") as log:
            return subprocess.Popen(
                command,
                cwd=self.folder,
                env={**os.environ, **self.faulty, "WHO": "producer"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )

    def _answers(self, i: int) -> Path:
        return self.folder / f"answers{i}.txt"

    def _send_chord(self, n: int) -> None:
        from celery import chord

        def name(what: str) -> str:
            return str(uuid5(NAMESPACE_OID, f"{self.plan_seed}/{what}"))

        header = []
        for i in range(PARTS):
            self.parts[f"part:{n}:{i}"] = name(f"part:{n}:{i}")
            header.append(self.module.part.s(n, i).set(task_id=name(f"part:{n}:{i}")))
        self.bodies[f"chord:{n}"] = name(f"chord:{n}")
        chord(header, self.module.join.s(n).set(task_id=name(f"chord:{n}"))).apply_async()

    def _waiting(self) -> int:
        pipe = self.pulse.store.client.pipeline(transaction=False)
        for part in self.pulse.keys.all_partitions():
            for index in (part.leases, part.schedule, part.queued, part.held):
                pipe.zcard(index)
        return sum(pipe.execute())

    def _done(self) -> int:
        with self.engine.connect() as connection:
            return int(connection.execute(select(func.count()).select_from(self.module.done)).scalar_one())

    def _collect(self) -> Evidence:
        client = self.pulse.store.client
        records = read_records(client, self.pulse.settings.prefix)
        answers: dict[int, set[str]] = {}
        for i in range(len(self.producers)):
            for n, job_id, _ in read_log(self._answers(i)):
                answers.setdefault(n, set()).add(job_id)
        with self.engine.connect() as connection:
            done = Counter(connection.execute(select(self.module.done.c.what)).scalars())
            noted = connection.execute(select(func.count()).select_from(effects)).scalar_one()
        known = [job_id for ids in answers.values() for job_id in ids]
        known += [*self.parts.values(), *self.bodies.values()]
        backend = self.module.app.backend
        inside = kills(self.log)
        hit = sum(2 if role == "main" else 1 for role, _ in inside) + self.chaos.may_have_hit
        return Evidence(
            plan=self.plan,
            answers=answers,
            parts=self.parts,
            bodies=self.bodies,
            effects=done,
            noted=int(noted),
            records=records,
            results={job_id: backend.get_task_meta(job_id)["status"] for job_id in known},
            crash_events={j: self._crash_events(j) for j, r in records.items() if r.crashes},
            left_in_indexes=self._waiting(),
            max_crashes=MAX_CRASHES,
            may_have_hit=hit,
        )

    def _crash_events(self, job_id: str) -> list[float]:
        entries = self.pulse.store.client.xrange(self.pulse.keys.job(job_id).events)
        return [int(fields[b"data"]) / 1e6 for _, fields in entries if fields[b"type"] == b"crashed"]

    def _close(self) -> None:
        # Results unsubscribe as they go, which may be when the server is gone.
        self.module.app.backend.result_consumer.cancel_for = lambda _: None
        self.engine.dispose()
        self.pulse.store.close()
        with suppress(Exception):  # a connection that the end of a worker has closed
            self.module.app.close()
