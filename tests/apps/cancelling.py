"""An app whose tasks are hard to stop, each in its own way. What they did is counted in Redis."""

from __future__ import annotations

import ctypes
import os
import re
import threading
import time

from celery import Celery
from celery.exceptions import Ignore, Reject, SoftTimeLimitExceeded
from redis import Redis

from denyut import Denyut, current_job
from denyut.errors import JobCancelled

app = Celery("cancelling", set_as_current=False)
app.conf.update(
    broker_url=os.environ["CELERY_BROKER_URL"],
    result_backend=os.environ["CELERY_BROKER_URL"],
    worker_prefetch_multiplier=int(os.environ.get("PREFETCH", "1")),
    denyut_lease_ttl=float(os.environ.get("LEASE_TTL", "6.0")),
    denyut_interrupt_grace=float(os.environ.get("GRACE", "1.0")),
    denyut_queued_timeout=float(os.environ.get("QUEUED_TIMEOUT", "60.0")),
    task_acks_late=os.environ.get("ACKS_LATE") == "1",
)
Denyut(app)


def tell(what: str) -> None:
    """Count ``what``, and note when it happened."""
    with Redis.from_url(app.conf.broker_url) as redis:
        redis.hincrby("told", what, 1)
        redis.hset("told_at", what, repr(time.time()))


@app.task
def sleeps(seconds: float = 60.0) -> str:
    """Sleep in one C call."""
    tell("begun")
    try:
        time.sleep(seconds)  # the work
    finally:
        tell("over")
    return "slept"


@app.task
def looks(seconds: float) -> int:
    """Work in small steps, and tell the progress."""
    job = current_job()
    tell("begun")
    for _ in job.track(range(int(seconds * 20))):
        time.sleep(0.05)  # the work
    return job.attempt


@app.task
def computes() -> None:
    """Compute in Python, for ever, and look at nothing."""
    tell("begun")
    while True:
        sum(range(1000))


@app.task
def waits_for_a_lock() -> None:
    lock = threading.Lock()
    tell("begun")
    with lock:
        try:
            lock.acquire()
        finally:
            tell("over")


@app.task
def backtracks() -> None:
    """Hold the GIL in a regular expression, which looks for signals."""
    tell("begun")
    try:
        re.match(r"(a+)+$", "a" * 60 + "b")
    finally:
        tell("over")


@app.task
def sits_in_c() -> None:
    """Hold the GIL in one C call, which no signal can end."""
    tell("begun")
    libc = ctypes.PyDLL(None)
    libc.sigfillset.argtypes = [ctypes.c_void_p]
    mask = ctypes.create_string_buffer(128)
    libc.sigfillset(mask)
    libc.sigsuspend(mask)  # waits, with every signal blocked that can be
    tell("over")


@app.task(autoretry_for=(Exception,), retry_backoff=False, default_retry_delay=0)
def catches_exceptions() -> None:
    """Catch what every careful program catches, and go on with the next row."""
    tell("begun")
    while True:
        try:
            time.sleep(60)  # the work
        except Exception:  # noqa: BLE001 - that is what is tested
            tell("swallowed")


@app.task
def swallows_everything() -> None:
    tell("begun")
    while True:
        try:
            time.sleep(60)  # the work
        except BaseException:  # noqa: BLE001 - that is what is tested
            tell("swallowed")


@app.task
def swallows_once() -> str:
    tell("begun")
    try:
        time.sleep(60)  # the work
    except JobCancelled:
        tell("swallowed")
    return "as if nothing had happened"


@app.task
def cleans_up(seconds: float) -> None:
    """Take longer for cleaning up than the heartbeat takes between two signals."""
    tell("begun")
    try:
        time.sleep(60)  # the work
    except JobCancelled:
        time.sleep(seconds)  # cleaning up
        current_job().stage("CLEAN")
        tell("clean")
        raise


@app.task
def runs_into_a_second_attempt() -> int:
    """Sit in C in the first attempt, and return at once in the next."""
    job = current_job()
    if job.attempt == 1:
        sits_in_c.run()
    return job.attempt


@app.task(soft_time_limit=1)
def has_a_soft_limit() -> None:
    tell("begun")
    try:
        time.sleep(60)  # the work
    except SoftTimeLimitExceeded:
        tell("limit")
        time.sleep(60)  # closing down, slowly


@app.task(bind=True, max_retries=None)
def retries(self, countdown: float) -> None:
    tell("begun")
    raise self.retry(countdown=countdown)


@app.task
def gives_way(how: str) -> None:
    tell(how)
    if how == "ignore":
        raise Ignore
    raise Reject("no", requeue=how == "requeue")


@app.task
def tells_if_it_runs(*_: object) -> str:
    tell("ran")
    return "ran"


@app.task
def on_error(job_id: str) -> None:
    tell(f"error of {job_id}")
