"""What a heartbeat costs: leases a second of a beat, and items a second of ``track()``.

A beat of 1,000 running jobs is set against the same commands on the same keys, sent raw in one pipeline
that was packed beforehand: what any heartbeat that keeps leases and telemetry must do. ``track()`` is set
against a generator that does nothing but pass its items on.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

from pairs import Comparison, compare

from denyut.config import Settings
from denyut.keys import Keys
from denyut.quick import QuickRedis, packed
from denyut.signals.beat import Beater
from denyut.tasks.run import JobRun
from denyut.tasks.slots import SlotBlock

if TYPE_CHECKING:
    from denyut.signals.beat import SlotState

JOBS = 1000
ITEMS = 200_000
FENCE = 1 << 50
OWNER = "bench@host|b00t"


def beat_throughput(url: str, seconds: float) -> dict[str, Comparison]:
    """Return leases a second of a beat of 1,000 jobs, and items a second of ``track()``."""
    settings, keys = Settings(), Keys("beat")
    block, client = SlotBlock.create(JOBS), QuickRedis.from_url(url)
    with closing(block), closing(client):
        _begin(client, block, keys)
        beater = Beater(settings, keys, block)
        raw = b"".join(map(packed, _commands(beater.jobs(), keys)))
        count = len(list(_commands(beater.jobs(), keys)))

        def ours() -> float:
            begin = time.perf_counter()
            done = beater.beat(client, beater.jobs())
            took = time.perf_counter() - begin
            assert not done.lost
            return JOBS / took

        connection = client.connection_pool.get_connection()
        results = {"beat": compare(ours, lambda: _raw(connection, raw, count), seconds=seconds * 0.7)}
        run = JobRun(id="j", task="t", fence=FENCE, slot=block.slot(0))
        tracked = compare(
            lambda: _items(run.track(range(ITEMS))),
            lambda: _items(_passed(range(ITEMS))),
            seconds=seconds * 0.3,
        )
        return {**results, "track": tracked}


def _begin(client: Any, block: SlotBlock, keys: Keys) -> None:
    pipe = client.pipeline(transaction=False)
    for index in range(JOBS):
        job_id = f"job-{index}"
        job = keys.job(job_id)
        slot = block.slot(index)
        slot.begin(job_id=job_id, task="t", partition=job.partition, fence=FENCE, attempt=1, owner=OWNER)
        slot.progress(1, 10)
        pipe.hset(job.record, mapping={"state": "RUNNING", "fence": FENCE, "started_at": 1, "version": 1})
        pipe.set(job.lease, f"{OWNER}#{FENCE}", px=600_000)
    pipe.execute()


def _commands(jobs: Iterable[SlotState], keys: Keys) -> Iterator[tuple[Any, ...]]:
    for job in jobs:
        names = keys.job(job.job_id)
        known = ("state", "fence", "settled", "crashed_at", "started_at", "cancel", "draining")
        told = ("fence", "version", "progress_seq", "stage_seq", "stage", "cpu_s", "last_heartbeat")
        yield ("HMGET", names.record, *known)
        yield ("GET", names.lease)
        yield ("PEXPIRE", names.lease, 600_000)
        yield ("PEXPIRE", names.alive, 600_000)
        yield ("HMGET", names.telemetry, *told)
        written = (
            "version",
            1,
            "last_heartbeat",
            1,
            "beat_lag_ms",
            0,
            "rss_mb",
            "1.00",
            "rss_peak_mb",
            "1.00",
        )
        yield ("HSET", names.telemetry, *written, "cpu_s", "1.00")
        yield ("ZADD", keys.partition(names.partition).leases, FENCE, job.job_id)


def _raw(connection: Any, raw: bytes, count: int) -> float:
    begin = time.perf_counter()
    connection.send_packed_command([raw])
    for _ in range(count):
        connection.read_response()
    return JOBS / (time.perf_counter() - begin)


def _passed(items: Iterable[int]) -> Iterator[int]:
    for item in items:  # noqa: UP028 - a loop, as in track()
        yield item


def _items(iterator: Iterator[int]) -> float:
    begin = time.perf_counter()
    deque(iterator, maxlen=0)
    return ITEMS / (time.perf_counter() - begin)
