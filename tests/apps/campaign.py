"""The app of the kill campaign: jobs whose effects PostgreSQL counts, in processes that kill themselves."""

from __future__ import annotations

import os
import signal
from functools import cache
from typing import Any

from celery import Celery
from faults.points import Faults
from sqlalchemy import Column, Engine, Integer, MetaData, String, Table, create_engine, insert
from sqlalchemy.orm import Session

from denyut import Denyut, current_job

app = Celery("campaign", set_as_current=False)
app.conf.update(
    broker_url=os.environ["CELERY_BROKER_URL"],
    result_backend=os.environ["CELERY_BROKER_URL"],
    result_extended=True,
    task_default_queue="campaign",
    worker_prefetch_multiplier=4,
    denyut_lease_ttl=float(os.environ.get("LEASE_TTL", "3.0")),
    denyut_queued_timeout=4.0,
    denyut_recovery_interval=0.2,
    denyut_max_crashes=int(os.environ.get("MAX_CRASHES", "3")),
)
Denyut(app)

faults = Faults.from_env(os.environ.get("WHO", ""))
if faults is not None:
    faults.install()

metadata = MetaData()
#: What was done. Nothing here is unique: a second effect of one job shows.
done = Table(
    "done",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("what", String(60), nullable=False, index=True),
    Column("job", String(60), nullable=False),
    Column("attempt", Integer, nullable=False),
)


@cache
def _engine(_pid: int) -> Engine:
    return create_engine(os.environ["DATABASE_URL"], pool_size=1)


def point(name: str) -> None:
    """A point in a body."""
    if faults is not None:
        faults.point(name)


def effect(what: str) -> str:
    """Take effect once, as a user's task would."""
    job = current_job()
    point("in body")
    with Session(_engine(os.getpid())) as session:
        if found := job.committed(session):
            return str(found.result)
        session.execute(insert(done).values(what=what, job=job.id, attempt=job.attempt))
        point("in transaction")
        return str(job.commit(session, what))


@app.task
def plain(n: int) -> str:
    return effect(f"job:{n}")


@app.task(bind=True, max_retries=2)
def again(self: Any, n: int) -> str:
    """Fail once, and be retried."""
    if self.request.retries == 0:
        raise self.retry(countdown=0.2)
    return effect(f"job:{n}")


@app.task
def follow(result: str, n: int) -> str:
    """The link of a job."""
    assert result == f"job:{n}", result
    return effect(f"link:{n}")


@app.task
def part(n: int, i: int) -> str:
    return effect(f"part:{n}:{i}")


@app.task
def join(results: list[str], n: int) -> str:
    """The body of a chord."""
    assert results == [f"part:{n}:{i}" for i in range(len(results))], results
    return effect(f"chord:{n}")


@app.task
def poison(n: int) -> None:
    """Kill every process that runs it."""
    if faults is not None:
        faults.die("poison")
    os.kill(os.getpid(), signal.SIGKILL)
