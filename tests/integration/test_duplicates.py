"""The same key from two processes at the same moment: one job, one run."""

from __future__ import annotations

import json
import subprocess
import sys

from nodes.worker import TESTS
from redis import Redis
from support import wait_until

PRODUCER = """
import json, sys
from apps.jobs import app, once
sys.stdin.readline()
print(json.dumps([[r.id, r.deduplicated] for r in (once.delay(n) for n in range(int(sys.argv[1])))]))
"""


def produce(env, count):
    """Start two producers and let both go at the same moment; return what each got."""
    import os

    environment = {**os.environ, **env, "PYTHONPATH": str(TESTS)}
    pair = [
        subprocess.Popen(
            [sys.executable, "-c", PRODUCER, str(count)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for process in pair:
        process.stdin.write("go\n")
        process.stdin.flush()
    return [json.loads(process.communicate(timeout=60)[0]) for process in pair]


def test_a_thousand_keys_from_two_producers_are_a_thousand_jobs_each_run_once(worker, valkey: Redis):
    count = 1000
    node = worker("apps.jobs")
    first, second = produce(node.env, count)
    assert [job_id for job_id, _ in first] == [job_id for job_id, _ in second]
    assert len({job_id for job_id, _ in first}) == count
    for one, other in zip(first, second, strict=True):
        assert one[1] != other[1], "exactly one of the two is the first"
    wait_until(lambda: valkey.hlen("runs") == count, timeout=60, what="all jobs to run")
    node.stop()
    assert set(valkey.hvals("runs")) == {b"1"}
