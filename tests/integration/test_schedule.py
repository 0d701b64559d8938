"""Schedules on real workers: out of memory, in time, and once, whoever is killed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from celery import Celery
from redis import Redis
from support import wait_until

MIB = 1024 * 1024


def rss(pid: int) -> int:
    """Return the resident memory of a process, in bytes."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1]) * 1024


def scheduled(pulse) -> int:
    return sum(pulse.store.client.zcard(part.schedule) for part in pulse.keys.all_partitions())


@pytest.fixture
def plain():
    """Make a client without Denyut on the broker of a worker's app."""
    made = []

    def make(node):
        made.append(Celery("plain", broker=node.app.conf.broker_url, set_as_current=False))
        made[-1].conf.result_backend = node.app.conf.result_backend
        return made[-1]

    yield make
    for app in made:
        app.close()


def test_thousands_of_messages_for_later_from_a_plain_client_cost_a_worker_no_memory(
    worker, plain, valkey: Redis
):
    node = worker("apps.jobs", concurrency=1)
    client = plain(node)
    warm = 200
    with client.producer_pool.acquire(block=True) as producer:

        def send(count):
            for n in range(count):
                client.send_task("apps.jobs.add", (n, n), countdown=3600, producer=producer)

        send(warm)
        wait_until(lambda: scheduled(node.app.denyut) == warm, timeout=30, what="the first to be kept")
        before = rss(node.pid)
        count = 4000
        send(count)
    wait_until(lambda: scheduled(node.app.denyut) == warm + count, timeout=60, what="all to be kept")
    wait_until(lambda: not valkey.zcard("unacked_index"), what="all to be acknowledged")
    # In memory they would take 11 KB each and more, which is 42 MiB.
    assert rss(node.pid) - before < 8 * MIB
    assert node.app.denyut.jobs.list(state="SCHEDULED", limit=1).jobs[0].record.task == "apps.jobs.add"


def test_a_plain_clients_job_runs_at_its_time_also_when_the_worker_that_took_it_is_killed(worker, plain):
    first = worker("apps.jobs", concurrency=1)
    result = plain(first).send_task("apps.jobs.add", (1, 2), countdown=3)
    wait_until(lambda: scheduled(first.app.denyut), what="the job to be kept")
    first.kill_all()
    worker("apps.jobs", concurrency=1)
    assert result.get(timeout=30) == 3
    record = first.app.denyut.jobs.get(result.id, fresh=True).record
    assert record.attempt == 1


def test_each_of_many_workers_may_watch_and_each_job_runs_once(worker, valkey: Redis):
    nodes = [worker("apps.jobs", concurrency=1) for _ in range(3)]
    once, keys = nodes[0].module.once, nodes[0].app.denyut.keys
    watcher = lambda: valkey.get(keys.schedule_watch())  # noqa: E731 - asked again and again
    for n in range(60):
        once.apply_async((n,), countdown=0.5 + n / 10)
    first = wait_until(watcher, what="somebody to watch")
    next(node for node in nodes if first.decode().startswith(node.name)).kill_all()
    wait_until(lambda: watcher() not in (None, first), what="another to take over")
    wait_until(lambda: valkey.hlen("runs") == 60, timeout=60, what="all jobs to run")
    assert set(valkey.hvals("runs")) == {b"1"}
