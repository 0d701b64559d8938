"""An app of bodies that end in every way that is no plain exception."""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import Any

from celery import Celery

from denyut import Denyut, current_job

app = Celery("failing", set_as_current=False)
app.conf.update(
    broker_url=os.environ["CELERY_BROKER_URL"],
    result_backend=os.environ["CELERY_BROKER_URL"],
    task_acks_late=os.environ.get("ACKS_LATE") == "1",
    denyut_lease_ttl=30.0,  # nothing here may wait for the end of a lease
)
Denyut(app)


class OwnError(BaseException):
    """Of a library that wants to be let through."""


class TakesMoreError(Exception):
    """Cannot be made again from its arguments."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(first)
        self.second = second


class ShowsNothingError(Exception):
    """Fails at being shown."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


@app.task
def ends(how: str) -> Any:
    """End in the way ``how``."""
    errors: dict[str, BaseException] = {
        "KeyboardInterrupt": KeyboardInterrupt(),
        "GeneratorExit": GeneratorExit(),
        "OwnError": OwnError("x"),
        "TakesMoreError": TakesMoreError(1, 2),
        "ShowsNothingError": ShowsNothingError(),
        "lock": ValueError(threading.Lock()),
        "out of memory": MemoryError("x"),
    }
    if how in errors:
        raise errors[how]
    if how == "returns a lock":
        return threading.Lock()
    if how == "returns a generator":
        return (x for x in ())
    return sys.exit(int(how))


#: Every way that :func:`ends` knows.
WAYS = [
    *("KeyboardInterrupt", "GeneratorExit", "OwnError", "TakesMoreError", "ShowsNothingError", "lock"),
    *("out of memory", "returns a lock", "returns a generator", "0", "1", "-241"),
]


@app.task
def fine() -> int:
    """Return the attempt."""
    return current_job().attempt


@app.task(time_limit=1.0, autoretry_for=(Exception,), retry_kwargs={"countdown": 0.1, "max_retries": 2})
def over_limit(times: int) -> int:
    """Run over the hard time limit at the first attempts; return the attempt that did not."""
    attempt = current_job().attempt
    if attempt <= times:
        time.sleep(60)  # the work that takes too long
    return attempt


@app.task
def collect(results: list[Any]) -> list[Any]:
    """The body of a chord."""
    return results
