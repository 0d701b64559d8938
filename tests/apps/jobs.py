"""An app whose tasks are jobs: what the integration and crash tests run on real workers."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time

from celery import Celery
from redis import Redis

from denyut import Denyut, current_job

app = Celery("jobs", set_as_current=False)
app.conf.update(
    broker_url=os.environ["CELERY_BROKER_URL"],
    result_backend=os.environ["CELERY_BROKER_URL"],
    worker_prefetch_multiplier=int(os.environ.get("PREFETCH", "1")),
    denyut_redis_url=os.environ.get("DENYUT_REDIS_URL"),
    denyut_lease_ttl=float(os.environ.get("LEASE_TTL", "2.0")),
    denyut_max_crashes=int(os.environ.get("MAX_CRASHES", "3")),
    denyut_heartbeat=os.environ.get("HEARTBEAT", "auto"),
    denyut_stall_after=float(os.environ.get("STALL_AFTER", "60.0")),
    denyut_on_stall=os.environ.get("ON_STALL", "show"),
    denyut_interrupt_grace=float(os.environ.get("GRACE", "3.0")),
    task_acks_late=os.environ.get("ACKS_LATE") == "1",
    worker_soft_shutdown_timeout=float(os.environ.get("SOFT_SHUTDOWN", "0")),
    worker_pool_restarts=True,
    broker_transport_options=json.loads(os.environ.get("TRANSPORT", "{}")),
)
Denyut(app)


def effects() -> Redis:
    """Where tasks write what they did, for the test to count."""
    return Redis.from_url(os.environ.get("DENYUT_REDIS_URL") or app.conf.broker_url)


@app.task
def add(x: int, y: int) -> int:
    return x + y


@app.task(idempotency_key="once:{n}", ignore_result=True)
def once(n: int) -> None:
    """Count its own runs."""
    with effects() as redis:
        redis.hincrby("runs", str(n), 1)


@app.task
def steps(total: int, seconds: float) -> list[int]:
    """Work in steps with a checkpoint after each; returns where it began, its attempt and its crashes."""
    job = current_job()
    begin = job.checkpoint_data or 0
    job.stage("STEPPING")
    for step in job.track(range(begin, total), total=total, start=begin, unit="steps"):
        with effects() as redis:
            redis.hincrby("steps", f"{job.id}:{step}", 1)
        time.sleep(seconds)  # the work
        job.checkpoint(step + 1)
    return [begin, job.attempt, job.crashes]


@app.task
def backtrack(n: int) -> int:
    """Hold the GIL in one C call: a regular expression that backtracks catastrophically."""
    job = current_job()
    job.stage("MATCHING")
    re.match(r"(a+)+$", "a" * n + "b")
    return job.attempt


@app.task
def suicide() -> None:
    """Kill the process that runs it, every time."""
    os.kill(os.getpid(), 9)


@app.task
def kill_worker(number: int) -> None:
    """Send a signal to the main process of its worker, when the other jobs there have begun."""
    time.sleep(1.5)
    os.kill(os.getppid(), number)
    time.sleep(60)


@app.task
def waits(seconds: float) -> list[int]:
    """Take a while without a word to anybody; returns its attempt and its crashes."""
    job = current_job()
    time.sleep(seconds)  # the work
    return [job.attempt, job.crashes]


@app.task
def hangs_once(how: str) -> list[int]:
    """Hang for ever in the first attempt: in a lock, in C code that no signal wakes, or in a busy loop."""
    job = current_job()
    if job.attempt > 1:
        return [job.attempt, job.crashes]
    if how == "lock":
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()
    elif how == "deaf":
        signal.pthread_sigmask(signal.SIG_BLOCK, set(range(1, 32)))
        while True:
            signal.sigwait({signal.SIGUSR1})
    while True:
        sum(range(1000))


@app.task(max_runtime=1.5)
def overruns_once(how: str) -> list[int]:
    """The same, with an end."""
    return list(hangs_once.run(how))


@app.task
def newest(key: int, number: int) -> int:
    """Tell when a run with ``number`` begins and ends; the judge is the order in one List."""
    with effects() as redis:
        redis.rpush(f"newest:{key}", f"begin {number}")
        time.sleep(0.1)  # the work
        current_job().check()
        redis.rpush(f"newest:{key}", f"end {number}")
    return number
