"""Jobs with a job store, for tests that take the store away."""

from __future__ import annotations

import os
from typing import Any

from celery import Celery, Task

from denyut import Denyut

app = Celery("stored", set_as_current=False)
app.conf.update(
    broker_url=os.environ["CELERY_BROKER_URL"],
    result_backend=os.environ["CELERY_BROKER_URL"],
    task_default_queue="stored",
    denyut_database_url=os.environ["STORE_URL"],
    denyut_database_timeout=0.3,
    denyut_store_writes=os.environ.get("STORE_WRITES", "behind"),
    denyut_lease_ttl=2.0,
)
Denyut(app)


@app.task(bind=True, max_retries=1)
def work(self: Task[Any, Any], number: int) -> int:
    """End in one of several ways."""
    if number % 5 == 1:
        raise ValueError(number)
    if number % 5 == 2 and self.request.retries == 0:
        raise self.retry(countdown=0.1)
    if number % 5 == 3:
        app.denyut.jobs.get(self.request.id)
    return number
