"""What ``commit(session)`` costs: transactions a second with an effect, against plain ones."""

from __future__ import annotations

import time
from itertools import count
from typing import TYPE_CHECKING

from nodes.postgres import PrivatePostgres, find_programs
from pairs import Comparison, compare
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

from denyut.states import State
from denyut.tasks.claim import claim
from denyut.tasks.effects import create_effects_table
from denyut.tasks.envelope import Stamp
from denyut.tasks.finish import Outcome, finish
from denyut.tasks.run import JobRun

if TYPE_CHECKING:
    from celery import Celery

COMMITS = 100  # a round
PAY = text("INSERT INTO payments (amount) VALUES (:amount)")


def commit_throughput(app: Celery, seconds: float) -> Comparison:
    """Transactions a second of one process: ``job.commit(session)`` against ``session.commit()``.

    On a private PostgreSQL that does not wait for its disk: with one that does, the difference is smaller.
    """
    programs = find_programs()
    if programs is None:
        raise FileNotFoundError(
            "PostgreSQL is not there; install the extra 'test', which brings its programs"
        )
    server = PrivatePostgres()
    server.start(programs)
    try:
        return _compare(app, server.database(), seconds)
    finally:
        server.stop()


def _compare(app: Celery, database: str, seconds: float) -> Comparison:
    engine = create_engine(database)
    create_effects_table(engine)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE payments (amount BIGINT)"))
    amounts = count()

    def ours() -> float:
        runs = [_claimed(app) for _ in range(COMMITS)]
        begin = time.perf_counter()
        for run in runs:
            with Session(engine) as session:
                session.execute(PAY, {"amount": next(amounts)})
                run.commit(session)
        took = time.perf_counter() - begin
        for run in runs:
            _finish(app, run)
        return COMMITS / took

    def base() -> float:
        begin = time.perf_counter()
        for _ in range(COMMITS):
            with Session(engine) as session:
                session.execute(PAY, {"amount": next(amounts)})
                session.commit()
        return COMMITS / (time.perf_counter() - begin)

    try:
        return compare(ours, base, seconds=seconds)
    finally:
        engine.dispose()


def _claimed(app: Celery) -> JobRun:
    pulse, task = app.denyut, app.tasks["bench.nothing"]
    job_id = task.apply_async(queue="bench.denyut.nobody").id
    given = claim(
        pulse,
        job_id,
        task=task.name,
        queue="bench.denyut.nobody",
        stamp=Stamp(gen=1),
        pid=1,
        message=lambda: ("", None),  # type: ignore[arg-type,return-value]
    )
    return JobRun(id=job_id, task=task.name, fence=given.fence, pulse=pulse)


def _finish(app: Celery, run: JobRun) -> None:
    outcome = Outcome(state=State.COMPLETED)
    finish(app.denyut, run.id, run.fence, outcome, digest=None, retention=60.0, settled=True)
