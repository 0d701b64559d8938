"""An app whose jobs take locks of their own."""

from __future__ import annotations

import os
import re
import time

from celery import Celery
from redis import Redis

from denyut import Denyut, current_job

app = Celery("locking", set_as_current=False)
app.conf.update(
    broker_url=os.environ["CELERY_BROKER_URL"],
    result_backend=os.environ["CELERY_BROKER_URL"],
    worker_prefetch_multiplier=1,
    denyut_redis_url=os.environ.get("DENYUT_REDIS_URL"),
    denyut_lease_ttl=float(os.environ.get("LEASE_TTL", "1.0")),
    denyut_heartbeat=os.environ.get("HEARTBEAT", "auto"),
)
pulse = Denyut(app)


@app.task
def compute(name: str, letters: int) -> list[int]:
    """Hold a lock, and the GIL: one regular expression that backtracks, of 2 ** letters steps."""
    with pulse.lock(name) as lock:
        re.match(r"(a+)+$", "a" * letters + "b")
        lock.check()
        return [lock.fence]


@app.task
def sleep(name: str, seconds: float) -> list[int]:
    """Hold a lock, and sleep."""
    with pulse.lock(name) as lock:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(0.02)  # the work
            lock.check()
        return [lock.fence]


@app.task
def advance(name: str, seconds: float) -> None:
    """Hold a lock, and tell only how far the work has got."""
    with pulse.lock(name):
        for _ in current_job().track(range(int(seconds / 0.02))):
            time.sleep(0.02)  # the work


@app.task
def forget(name: str) -> int:
    """Take a lock, and release it never."""
    lock = pulse.lock(name)
    lock.acquire()
    return lock.fence


@app.task
def enter(name: str, seconds: float) -> None:
    """Note in a list when one is inside and when one has left."""
    with pulse.lock(name, timeout=60) as lock, Redis.from_url(pulse.redis_url()) as redis:
        redis.rpush("diary", f"in {lock.fence}")
        time.sleep(seconds)  # the work
        redis.rpush("diary", f"out {lock.fence}")
