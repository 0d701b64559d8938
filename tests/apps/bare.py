"""An app without any configuration: broker, results and jobs are the embedded server's."""

from __future__ import annotations

import time

from celery import Celery

from denyut import Denyut, current_job

app = Celery("bare", set_as_current=False)
app.conf.denyut_lease_ttl = 2.0
Denyut(app)


@app.task
def add(x: int, y: int) -> int:
    return x + y


@app.task
def slow(seconds: float) -> int:
    """Return the number of the attempt that got to the end."""
    time.sleep(seconds)
    return current_job().attempt
