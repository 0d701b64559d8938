"""Events through a real broker and real workers to an exact median."""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nodes.worker import TESTS, CeleryWorker
from redis import Redis
from support import die_with_parent, wait_until

from denyut.median.routing import APPLY_TASK, median_queue, shard_of

# What worker-median gives to Celery, but for the names.
MEDIAN = {
    "queues": [f"median.{shard}" for shard in range(4)],
    "concurrency": 1,
    "args": ("--prefetch-multiplier", "1"),
}


def events(n: int, seed: int = 1) -> list[tuple[float, str]]:
    rng = random.Random(seed)
    return [(rng.lognormvariate(3, 2), f"e{i}") for i in range(n)]


def expect(pulse: Any, stream: str, recorded: list[tuple[float, str]], timeout: float = 30.0) -> Any:
    """Wait until the stream has all the events, and compare its median."""
    wait_until(lambda: pulse.median.read(stream).count == len(recorded), timeout, f"{len(recorded)} events")
    reading = pulse.median.read(stream)
    assert reading.value == statistics.median([value for value, _ in recorded])
    assert reading.conflicts == 0
    return reading


def test_events_of_many_streams_with_duplicates_come_to_exact_medians(worker: Any) -> None:
    node: CeleryWorker = worker("apps.medians", **MEDIAN)
    pulse = node.module.pulse
    streams = {f"stream-{n}": events(1500, seed=n) for n in range(6)}
    for name, recorded in streams.items():
        pulse.median.record_many(name, recorded)
        again = recorded[:300]
        random.Random(name).shuffle(again)
        pulse.median.record_many(name, again)
    for name, recorded in streams.items():
        expect(pulse, name, recorded)
    wait_until(
        lambda: {pulse.median.read(name).duplicates for name in streams} == {300}, what="the duplicates"
    )
    assert pulse.median.streams() == dict.fromkeys(streams, 1500)


@pytest.mark.parametrize("whole_node", [False, True], ids=["the child", "the whole node"])
def test_a_killed_median_worker_loses_and_doubles_nothing(worker: Any, whole_node: bool) -> None:
    node: CeleryWorker = worker("apps.medians", **MEDIAN)
    pulse = node.module.pulse
    recorded = events(20_000)
    pulse.median.record_many("s", recorded[:10_000])
    wait_until(lambda: pulse.median.read("s").count > 0, what="the first batch")
    pulse.median.record_many("s", recorded[10_000:])
    if whole_node:
        node.kill_all()
        worker("apps.medians", **MEDIAN)
    else:
        os.kill(node.pool_pids[0], 9)
    expect(pulse, "s", recorded)


def test_a_poison_message_fails_its_job_and_the_shard_goes_on(worker: Any, valkey: Redis) -> None:
    node: CeleryWorker = worker("apps.medians", **MEDIAN)
    pulse = node.module.pulse
    queue = median_queue(pulse, shard_of("s", 4))
    poison = node.app.send_task(APPLY_TASK, ("s", "no batch at all"), queue=queue)
    pulse.median.record("s", 7, event_id="a")
    assert expect(pulse, "s", [(7.0, "a")]).value == 7.0
    record = pulse.keys.job(poison.id).record
    wait_until(lambda: valkey.hget(record, "state") == b"FAILED", what="the poison job to fail")
    assert b"PoisonBatch" in (valkey.hget(record, "error") or b"")


def test_a_plain_worker_leaves_the_events_to_the_median_workers(worker: Any, valkey: Redis) -> None:
    node: CeleryWorker = worker("apps.medians")
    pulse = node.module.pulse
    pulse.median.record("s", 7, event_id="a")
    assert node.module.add.delay(2, 3).get(timeout=20) == 5
    assert valkey.llen(median_queue(pulse, shard_of("s", 4)).name) == 1
    worker("apps.medians", **MEDIAN)
    expect(pulse, "s", [(7.0, "a")])


@pytest.fixture
def median_worker(worker: Any, tmp_path: Path) -> Iterator[CeleryWorker]:
    """``denyut.median.worker.run`` in a process of its own."""
    node: CeleryWorker = worker("apps.medians", start=False)
    code = "from apps.medians import app; from denyut.median.worker import run; run(app)"
    with (tmp_path / "median.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONPATH": str(TESTS), **node.env},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            preexec_fn=die_with_parent,
        )
    yield node
    process.kill()
    process.wait(10)


def test_the_median_worker_applies_the_events_of_all_shards(median_worker: CeleryWorker) -> None:
    pulse = median_worker.module.pulse
    streams = {f"stream-{n}": events(10, seed=n) for n in range(12)}
    assert {shard_of(name, 4) for name in streams} == {0, 1, 2, 3}
    for name, recorded in streams.items():
        pulse.median.record_many(name, recorded)
    for name, recorded in streams.items():
        expect(pulse, name, recorded)
