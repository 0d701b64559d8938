"""Newest wins, one at a time: while producers call and workers are killed, as a judge outside sees it."""

from __future__ import annotations

import itertools
import os
import random
import signal
import threading
import time

import pytest
from support import wait_until

from denyut.states import TERMINAL, State
from denyut.tasks.record import FIELDS, JobRecord

SECONDS = 12.0
TTL = "1.0"


class Producers:
    """Threads that call with ever newer numbers, each for a key of its own."""

    def __init__(self, task, policy: str, keys: int) -> None:
        self.task, self.policy = task, policy
        self.newest = dict.fromkeys(range(keys), 0)
        self.handles = {key: {} for key in range(keys)}  # job id -> newest number that it was given
        self.stop = threading.Event()
        self.threads = [threading.Thread(target=self._run, args=(key,)) for key in range(keys)]

    def _run(self, key: int) -> None:
        dice = random.Random(key)
        while not self.stop.is_set():
            number = self.newest[key] + 1
            job = self.task.apply_async((key, number), idempotency_key=f"{key}", on_conflict=self.policy)
            self.newest[key] = number
            self.handles[key][job.id] = number
            self.stop.wait(dice.uniform(0.0, 0.15))


def record(pulse, job_id):
    return JobRecord.from_redis(job_id, pulse.store.client.hmget(pulse.keys.job(job_id).record, *FIELDS))


@pytest.mark.slow
def test_the_newest_payload_runs_once_more_and_no_two_run_at_once_whoever_is_killed(worker, valkey):
    dice = random.Random(7)
    nodes = [worker("apps.jobs", env={"LEASE_TTL": TTL, "MAX_CRASHES": "50"}) for _ in range(2)]
    pulse, kills = nodes[0].app.denyut, 0
    producers = Producers(nodes[0].module.newest, "run_again", keys=4)
    for thread in producers.threads:
        thread.start()
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        time.sleep(dice.uniform(0.2, 0.6))  # the pace of the kills
        node = dice.choice(nodes)
        if dice.random() < 0.3:  # the whole worker
            os.killpg(node.pid, signal.SIGKILL)
            nodes.remove(node)
            nodes.append(worker("apps.jobs", env={"LEASE_TTL": TTL, "MAX_CRASHES": "50"}))
        elif pids := node.pool_pids:
            os.kill(dice.choice(pids), signal.SIGKILL)
        kills += 1
    producers.stop.set()
    for thread in producers.threads:
        thread.join(30)

    def all_over():
        found = [record(pulse, job_id) for handles in producers.handles.values() for job_id in handles]
        return all(each is not None and each.state in TERMINAL and each.settled for each in found)

    wait_until(all_over, timeout=60, what="every job to have ended")
    for key, newest in producers.newest.items():
        told = [line.decode().split() for line in valkey.lrange(f"newest:{key}", 0, -1)]
        done = [int(number) for what, number in told if what == "end"]
        begun = [line for line in itertools.pairwise(told) if line[1][0] == "end"]
        assert all(one == ["begin", other[1]] for one, other in begun), "two were at work at once"
        assert done, "it ran"
        assert done[-1] == newest, f"key {key}: the last run had {done[-1]} of {newest}"
        for job_id, number in producers.handles[key].items():
            ended = record(pulse, job_id)
            assert ended.state == State.COMPLETED, (job_id, ended)
            assert nodes[0].app.AsyncResult(job_id).get(timeout=5) == number
    assert kills > 8
    assert sum(map(len, producers.handles.values())) > 20
