"""Databases of both kinds: empty, with old tables, with an outbox."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import create_engine, text

from denyut.database.engine import Database
from denyut.database.outbox import metadata
from denyut.database.outbox_put import put_statement


@pytest.fixture(params=["postgresql", "sqlite"])
def bare(request, tmp_path) -> Any:
    """An engine on an empty database."""
    lite = request.param == "sqlite"
    url = f"sqlite:///{tmp_path / 'app.db'}" if lite else request.getfixturevalue("postgres")
    engine = create_engine(url)
    yield engine
    engine.dispose()


@pytest.fixture
def engine(bare) -> Any:
    metadata().create_all(bare)
    return bare


@pytest.fixture
def put(engine) -> Any:
    """Put a row into the outbox."""

    def put(job_id: str, prefix: str = "p", due_in: int | None = None, **changed: Any) -> None:
        values = {"prefix": prefix, "id": job_id, "task": "t", "key": None, "message": "m", "due_in": due_in}
        with engine.begin() as connection:
            connection.execute(put_statement(), values)
            if changed:
                table = metadata().tables["denyut_outbox"]
                connection.execute(table.update().where(table.c.id == job_id).values(**changed))

    return put


@pytest.fixture(params=["sqlite", "postgresql"])
def empty(request, tmp_path):
    """A database without tables."""
    url = f"sqlite:///{tmp_path}/jobs.db"
    if request.param == "postgresql":
        url = request.getfixturevalue("postgres")
    made = Database(url, timeout=5.0)
    yield made
    made.close()


@pytest.fixture
def old(empty):
    """One whose tables were made before there were revisions, with a job in each state of interest."""
    with empty.engine.begin() as connection:
        for statement in _OLD:
            connection.execute(text(statement))
    return empty


_COLUMNS = "prefix, id, version, state, settled, task, queue, queued_at, due, finished_at, record"
_OLD = (
    """CREATE TABLE denyut_jobs (
        prefix VARCHAR(64) NOT NULL, id TEXT NOT NULL, version BIGINT NOT NULL, state VARCHAR(16) NOT NULL,
        settled BOOLEAN NOT NULL, task TEXT NOT NULL, queue TEXT NOT NULL, key TEXT, digest VARCHAR(64),
        queued_at BIGINT, due BIGINT, finished_at BIGINT, forget_at BIGINT, budget VARCHAR(16),
        record TEXT NOT NULL, PRIMARY KEY (prefix, id))""",
    "CREATE INDEX ix_denyut_jobs_state ON denyut_jobs (prefix, state, queued_at)",
    "CREATE INDEX ix_denyut_jobs_task ON denyut_jobs (prefix, task, queued_at)",
    "CREATE INDEX ix_denyut_jobs_digest ON denyut_jobs (prefix, digest)",
    "CREATE INDEX ix_denyut_jobs_forget ON denyut_jobs (prefix, forget_at)",
    """CREATE TABLE denyut_events (
        prefix VARCHAR(64) NOT NULL, job_id TEXT NOT NULL, ms BIGINT NOT NULL, seq BIGINT NOT NULL,
        type TEXT NOT NULL, fields TEXT NOT NULL, PRIMARY KEY (prefix, job_id, ms, seq))""",
    f"""INSERT INTO denyut_jobs ({_COLUMNS}) VALUES
        ('d', 'ended', 9, 'FAILED', true, 't', 'q', 1, NULL, 5, '{{}}'),
        ('d', 'runs', 8, 'RUNNING', false, 't', 'q', 2, NULL, NULL, '{{}}'),
        ('d', 'waits', 7, 'QUEUED', false, 't', 'q', 3, NULL, NULL, '{{}}'),
        ('d', 'due', 6, 'SCHEDULED', false, 't', 'q', 4, 99, NULL, '{{}}')""",
)
