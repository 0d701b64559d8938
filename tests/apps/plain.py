"""Plain Celery without Denyut: what the harness itself is tested with."""

from __future__ import annotations

import os
import time

from celery import Celery

app = Celery("plain", set_as_current=False)
app.conf.update(
    broker_url=os.environ["CELERY_BROKER_URL"],
    result_backend=os.environ["CELERY_BROKER_URL"],
    worker_prefetch_multiplier=1,
)


@app.task
def add(x: int, y: int) -> int:
    return x + y


@app.task
def pid() -> int:
    return os.getpid()


@app.task
def sleep(seconds: float) -> float:
    time.sleep(seconds)
    return seconds
