"""An app that records events, and a plain task beside them."""

from __future__ import annotations

import os

from celery import Celery

from denyut import Denyut

app = Celery("medians", set_as_current=False)
app.conf.update(
    broker_url=os.environ["CELERY_BROKER_URL"],
    result_backend=os.environ["CELERY_RESULT_BACKEND"],
    denyut_lease_ttl=2.0,
    denyut_queued_timeout=3.0,  # a message that a killed worker had received and not begun
    denyut_median_shards=4,
    denyut_median_batch=100,
)
pulse = Denyut(app)


@app.task(shared=False)
def add(x: int, y: int) -> int:
    return x + y
