"""Two ways to run no-op jobs for a soak: through the scripts alone, and through a real worker."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

from celery import Celery
from nodes.valkey import PrivateValkey
from nodes.worker import CeleryWorker

from denyut import Denyut
from denyut.scripts import Call, Script
from denyut.tasks.recovery import Recovery

_BATCH = 250
_QUEUE = "soak"


class Through(Protocol):
    """A way to run jobs."""

    pulse: Denyut
    retention: float

    def run(self, jobs: int) -> None:
        """Run ``jobs`` jobs to their end."""

    def tidy(self) -> None:
        """What a worker does now and then."""

    def rss_mib(self) -> float:
        """Memory of the processes that run jobs."""

    def close(self) -> None:
        """End everything."""


class ThroughScripts:
    """Sends the scripts of one real job again, for other ids, as the bytes that the client would send.

    Args:
        server: a private Valkey.
        folder: unused here.
        retention: of records and results (s).
    """

    def __init__(self, server: PrivateValkey, folder: Path, retention: float) -> None:
        self.pulse, self.retention = _app(server.url, retention).denyut, retention
        self._client = server.client()
        self._connection = self._client.connection_pool.get_connection()
        self._recovery = Recovery(self.pulse)
        steps, job_id, self._fence = _one_job(self.pulse)
        self._names = [script.name for script, _, _ in steps]
        self._ids = self._one_id_a_partition()
        self._packed = {
            number: [self._pack(call, job_id, other) for call in steps] for number, other in self._ids.items()
        }
        self._tidied = 0.0

    def run(self, jobs: int) -> None:
        """Run them, a batch in a round trip for each script and one for the messages."""
        for begin in range(0, jobs, _BATCH):
            ids = [str(uuid4()) for _ in range(min(_BATCH, jobs - begin))]
            self._run(ids)
            if time.monotonic() - self._tidied > 0.25:
                self.tidy()

    def tidy(self) -> None:
        """Look for lost jobs, which trims what has ended."""
        self._recovery.step()
        self._tidied = time.monotonic()

    def rss_mib(self) -> float:
        """Memory of this process."""
        return _rss_mib([os.getpid()])

    def close(self) -> None:
        """Let go of the connections."""
        self._client.connection_pool.release(self._connection)
        self._client.close()
        self.pulse.store.close()
        self.pulse.app.close()

    def _run(self, ids: list[str]) -> None:
        fences = [self._fence.encode()] * len(ids)
        for step, name in enumerate(self._names):
            replies = self._send(step, ids, fences)
            if name == "reserve":
                taken = self._client.rpop(_QUEUE, len(ids))
                assert len(taken or ()) == len(ids), f"the script publishes: {replies[0]}"
            elif name == "claim":
                assert all(reply[0] == b"CLAIMED" for reply in replies), replies[0]
                fences = [reply[1] for reply in replies]
            else:
                assert set(replies) == {b"OK"}, replies[0]

    def _send(self, step: int, ids: list[str], fences: list[bytes]) -> list[Any]:
        blobs, fence = [], self._fence.encode()
        for job_id, own in zip(ids, fences, strict=True):
            number = self.pulse.keys.partition_of(job_id)
            blob = self._packed[number][step]
            blobs.append(blob.replace(self._ids[number].encode(), job_id.encode()).replace(fence, own))
        self._connection.send_packed_command([b"".join(blobs)])
        return [self._connection.read_response() for _ in ids]

    def _one_id_a_partition(self) -> dict[int, str]:
        found: dict[int, str] = {}
        while len(found) < self.pulse.keys.partitions:
            job_id = str(uuid4())
            found.setdefault(self.pulse.keys.partition_of(job_id), job_id)
        return found

    def _pack(self, call: Call, job_id: str, other: str) -> bytes:
        """Return the command of a recorded call, for another job."""
        script, keys, args = call
        before, now = (f"{{{self.pulse.keys.partition_of(i)}}}" for i in (job_id, other))
        own = [key.replace(job_id, other).replace(before, now) for key in keys]
        filled = [arg.replace(job_id, other) if isinstance(arg, str) else arg for arg in args]
        return b"".join(self._connection.pack_command("EVALSHA", script.sha, len(own), *own, *filled))


class ThroughWorker:
    """A worker with two pool processes, fed so that the queue stays short."""

    def __init__(self, server: PrivateValkey, folder: Path, retention: float) -> None:
        env = {"CELERY_BROKER_URL": server.url, "SOAK_RETENTION": str(retention)}
        self.pulse, self.retention = _app(server.url, retention).denyut, retention
        self._client = server.client()
        self._worker = CeleryWorker("bench.soak_app", folder, env=env, name="soak@bench").start()

    def run(self, jobs: int) -> None:
        """Enqueue, and wait for the end of all."""
        task, sent = self.pulse.app.tasks["soak.nothing"], 0
        while sent < jobs:
            if self._client.llen(_QUEUE) > 4 * _BATCH:
                time.sleep(0.05)
                continue
            for _ in range(min(_BATCH, jobs - sent)):
                task.delay()
                sent += 1
        while self._live():
            time.sleep(0.05)

    def tidy(self) -> None:
        """The worker does."""

    def rss_mib(self) -> float:
        """Memory of the worker's main process and its pool."""
        return _rss_mib([self._worker.pid, *self._worker.pool_pids])

    def close(self) -> None:
        """End the worker and let go of the connections."""
        self._worker.kill_all()
        self._client.close()
        self.pulse.store.close()
        self.pulse.app.close()

    def _live(self) -> int:
        pipe = self._client.pipeline(transaction=False)
        for part in self.pulse.keys.all_partitions():
            pipe.zcard(part.queued)
            pipe.zcard(part.leases)
        return sum(pipe.execute())


def _app(url: str, retention: float) -> Any:
    from bench.soak_app import make_app

    return make_app(url, retention)


def _one_job(pulse: Denyut) -> tuple[list[Call], str, str]:
    """Run one job in this process; return the scripts that it sent, its id and its fence."""
    with _recording() as calls:
        job_id = pulse.app.tasks["soak.nothing"].delay().id
        _run_here(pulse.app)
    names = [script.name for (script, _, _), _ in calls]
    assert names == ["reserve", "claim", "finish"], f"a job sends other scripts by now: {names}"
    fence = calls[1][1][1].decode()
    plain = [
        (script, [_text(key) for key in keys], [fence if str(arg) == fence else _text(arg) for arg in args])
        for (script, keys, args), _ in calls
    ]
    return plain, job_id, fence


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


@contextmanager
def _recording() -> Iterator[list[tuple[Call, Any]]]:
    calls: list[tuple[Call, Any]] = []
    real = Script.__call__

    def record(script: Script, client: Any, keys: Any, args: Any = ()) -> Any:
        reply = real(script, client, keys, args)
        calls.append(((script, list(keys), list(args)), reply))
        return reply

    Script.__call__ = record  # type: ignore[method-assign]
    try:
        yield calls
    finally:
        Script.__call__ = real  # type: ignore[method-assign]


def _run_here(app: Celery) -> None:
    """Take the one message off the queue and run it as a pool process would."""
    from celery.app.trace import build_tracer

    with app.connection_for_read() as connection:
        message = connection.channel().basic_get(_QUEUE, no_ack=True)
    args, kwargs, embed = message.payload
    request = {**message.headers, "properties": message.properties, "delivery_info": message.delivery_info}
    task = app.tasks[message.headers["task"]]
    task.__trace__ = build_tracer(task.name, task, app.loader, "soak", app=app)
    task.__trace__(message.headers["id"], args, kwargs, {**request, **embed, "is_eager": False})


def _rss_mib(pids: list[int]) -> float:
    pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids)
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
