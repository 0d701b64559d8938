"""An app for what Celery does around a task: rate limits, priorities, chunks, results that are ignored."""

from __future__ import annotations

import os

from celery import Celery
from redis import Redis

from denyut import Denyut

app = Celery("features", set_as_current=False)
app.conf.update(
    broker_url=os.environ["CELERY_BROKER_URL"],
    result_backend=os.environ["CELERY_RESULT_BACKEND"],
    worker_prefetch_multiplier=int(os.environ.get("PREFETCH", "1")),
    task_acks_late=os.environ.get("ACKS_LATE") == "1",
    denyut_lease_ttl=1.0,
)
Denyut(app)


def tell(name: str, what: str) -> None:
    """Append to a list that the test reads."""
    with Redis.from_url(app.conf.broker_url) as redis:
        redis.rpush(name, what)


@app.task(shared=False, rate_limit="20/m")
def limited(name: str) -> str:
    tell("limited", name)
    return name


@app.task(shared=False)
def ordered(name: str) -> None:
    tell("ordered", name)


@app.task(shared=False, ignore_result=True)
def ignored(name: str) -> str:
    tell("ignored", name)
    return name


@app.task(shared=False)
def add(x: int, y: int) -> int:
    tell("added", f"{x}+{y}")
    return x + y
