"""A producer that is killed in the middle of a batch leaves whole jobs, and a rerun completes them once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support import wait_until

from denyut.tasks.bulk.batch import Batch
from denyut.tasks.wire import Catcher

PRODUCER = """
import sys
from celery import Celery
from denyut import Denyut

url = sys.argv[1]
app = Celery("p", broker=url, backend=url)
app.conf.update(task_default_queue=sys.argv[2], denyut_prefix=sys.argv[4])
Denyut(app)
@app.task(name="t.n", idempotency_key="k{n}")
def work(n): pass

app.finalize()
app.denyut.jobs.enqueue_many("t.n", (((n,),) for n in range(int(sys.argv[3]))), batch=20)
"""
JOBS = 3000


@pytest.mark.parametrize("after", [1, 700])
def test_a_producer_killed_in_the_middle_leaves_whole_jobs_that_a_rerun_adds_to(bench, valkey_server, after):
    ran = []

    @bench.task(name="t.n", idempotency_key="k{n}")
    def work(n):
        ran.append(n)

    queue = bench.app.conf.task_default_queue
    root = str(Path(__file__).parents[4])
    process = subprocess.Popen(
        [sys.executable, "-c", PRODUCER, valkey_server.url, queue, str(JOBS), bench.pulse.settings.prefix],
        env={**os.environ, "PYTHONPATH": root},
    )
    try:
        client = bench.pulse.store.client
        wait_until(lambda: client.llen(queue) >= after, timeout=60)
        process.send_signal(signal.SIGKILL)
    finally:
        process.wait(10)
    made = bench.counters()["enqueued"]
    assert after <= made < JOBS
    assert client.llen(queue) == made, "a record without a message, or a message without a record"
    jobs = bench.pulse.jobs.enqueue_many(work, (((n,),) for n in range(JOBS)))
    assert sum(job.deduplicated for job in jobs) == made
    assert bench.drain() == JOBS
    assert sorted(ran) == list(range(JOBS))


def test_a_batch_sends_nothing_before_it_is_started(bench):
    @bench.task(name="t.n", lazy=False)
    def work(n):
        return n

    with bench.app.producer_or_acquire(None) as producer:
        batch = Batch(bench.pulse, "t.n", work, {}, producer, Catcher(bench.pulse), {})
        assert batch.add((1,), {}, {})
        assert not batch.add((1,), {}, {"task_id": "mine"})
        assert bench.messages() == []
        assert batch.found == [None]
