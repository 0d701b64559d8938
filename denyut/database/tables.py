"""The tables of the job store: one row for each job, one for each entry of its story.

``record`` is the whole record, to the byte, as JSON text in ASCII: no database refuses it, and a job can be
put back into Redis from it. The other columns are copies of some fields, to be searched.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from sqlalchemy import BigInteger, Boolean, Column, Index, MetaData, String, Table, Text, and_

__all__ = ["AUDIT", "EVENTS", "GONE", "JOBS", "audit_table", "gone_table", "metadata", "tables"]

JOBS, EVENTS, GONE, AUDIT = "denyut_jobs", "denyut_events", "denyut_gone", "denyut_audit"


@cache
def metadata() -> MetaData:
    """Return the description of all tables."""
    found = MetaData()
    jobs = Table(
        JOBS,
        found,
        Column("prefix", String(64), primary_key=True),  # denyut_prefix: deployments may share a database
        Column("id", _by_bytes(), primary_key=True),
        Column("version", BigInteger, nullable=False),  # us; only a higher one replaces a row
        Column("state", String(16), nullable=False),
        Column("settled", Boolean, nullable=False),
        Column("task", Text, nullable=False),
        Column("queue", Text, nullable=False),
        Column("key", Text),
        Column("digest", String(64)),
        Column("queued_at", BigInteger),
        Column("due", BigInteger),
        Column("finished_at", BigInteger),
        Column("forget_at", BigInteger),  # until then Redis has it, too
        Column("budget", String(16)),  # of a dead letter: which one is spent
        Column("at", BigInteger),  # its place in lists: when it ended, began, was queued, or is due
        Column("record", Text, nullable=False),
    )
    # Each list is a walk along one of these (denyut/database/places.py), from where the last page ended.
    Index("ix_denyut_jobs_state_at", jobs.c.prefix, jobs.c.state, jobs.c.at, jobs.c.id)
    Index("ix_denyut_jobs_task_at", jobs.c.prefix, jobs.c.task, jobs.c.state, jobs.c.at, jobs.c.id)
    keyed, letter = jobs.c.key.is_not(None), and_(jobs.c.budget.is_not(None), jobs.c.forget_at.is_(None))
    _some("ix_denyut_jobs_key_at", jobs, keyed, "key", "at", "id")
    _some("ix_denyut_jobs_dead_at", jobs, letter, "at", "id")
    _some("ix_denyut_jobs_forget", jobs, jobs.c.forget_at.is_not(None), "forget_at", "id")
    _some("ix_denyut_jobs_endless", jobs, jobs.c.forget_at.is_(None), "id")
    Table(
        EVENTS,
        found,
        Column("prefix", String(64), primary_key=True),
        Column("job_id", Text, primary_key=True),
        Column("ms", BigInteger, primary_key=True),  # both parts of the id of the entry in the Stream
        Column("seq", BigInteger, primary_key=True),
        Column("type", Text, nullable=False),
        Column("fields", Text, nullable=False),  # JSON text in ASCII
    )
    gone = Table(
        GONE,
        found,
        Column("prefix", String(64), primary_key=True),
        Column("id", _by_bytes(), primary_key=True),
        Column("state", String(16), nullable=False),  # the last one
        Column("finished_at", BigInteger),
        Column("gone_at", BigInteger, nullable=False),  # when its row was deleted
    )
    Index("ix_denyut_gone_at", gone.c.prefix, gone.c.gone_at)
    _add_audit(found)
    return found


def gone_table() -> Table:
    """Return the table of what is remembered of deleted jobs."""
    return metadata().tables[GONE]


def _by_bytes() -> Any:
    """Texts in the order of their bytes, as Python has it, whatever the language of the database."""
    return Text().with_variant(Text(collation="C"), "postgresql")


def _some(name: str, jobs: Table, where: Any, *columns: str) -> None:
    """Index only the rows that are ``where``: others cost nothing, and no other query takes this index."""
    parts = [jobs.c[column] for column in ("prefix", *columns)]
    Index(name, *parts, postgresql_where=where, sqlite_where=where)


def audit_table() -> Table:
    """Return the table of what was done by hand."""
    return metadata().tables[AUDIT]


def _add_audit(found: MetaData) -> None:
    audit = Table(
        AUDIT,
        found,
        Column("prefix", String(64), primary_key=True),
        Column("id", String(32), primary_key=True),  # of the entry: random
        Column("at", BigInteger, nullable=False),  # us of Redis' clock
        Column("actor", Text, nullable=False),
        Column("host", Text, nullable=False),  # of the process that did it, and its pid
        Column("pid", BigInteger, nullable=False),
        Column("action", String(32), nullable=False),
        Column("job_id", Text),  # NULL: not of one job
        Column("state_before", String(16)),
        Column("state_after", String(16)),
        Column("outcome", Text, nullable=False),
        Column("reason", Text, nullable=False),
        Column("more", Text, nullable=False),  # JSON text in ASCII
    )
    Index("ix_denyut_audit_at", audit.c.prefix, audit.c.at, audit.c.id)
    Index("ix_denyut_audit_job", audit.c.prefix, audit.c.job_id, audit.c.at, audit.c.id)


def tables() -> tuple[Table, Table]:
    """Return the table of the jobs and the table of their events."""
    found = metadata()
    return found.tables[JOBS], found.tables[EVENTS]
