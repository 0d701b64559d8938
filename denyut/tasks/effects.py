"""Taking effect once in a SQL database: ``current_job().commit(session)``.

The row that says "this job took effect" is written in the same transaction as the effect itself, so
there is no moment with one and without the other. The primary key is the judge: of any number of
attempts, however late or stale, one transaction can commit.

Source of the technique: the idempotent receiver of Hohpe and Woolf, "Enterprise Integration Patterns"
(2003), with the table of received ids in the receiver's own transaction.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    func,
    inspect,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection
from sqlalchemy.exc import OperationalError, ProgrammingError
from sqlalchemy.orm import Session, scoped_session

from denyut.errors import AlreadyCommitted, ConfigurationError, JobCancelled, LeaseLost
from denyut.scripts import Script
from denyut.tasks.patience import patiently
from denyut.tasks.result import decode_result, encode_result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from sqlalchemy.engine import Engine

    from denyut.tasks.run import JobRun

__all__ = ["Committed", "commit", "create_effects_table", "effects", "find", "metadata"]

COMMIT = Script("denyut.tasks", "commit")

#: For migrations: ``target_metadata = [Base.metadata, denyut.tasks.effects.metadata]`` in Alembic.
metadata = MetaData()

#: One row for each effect that was committed.
effects = Table(
    "denyut_effects",
    metadata,
    Column("job_id", String(255), primary_key=True),
    Column("task", String(255), primary_key=True),  # a job whose task was replaced has one for each
    Column("step", String(100), primary_key=True),
    Column("fence", BigInteger, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("committed_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("result", Text, nullable=False),
)

_INSERTS: dict[str, Callable[..., Any]] = {"postgresql": postgresql.insert, "sqlite": sqlite.insert}


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """An effect that was committed: what it gave, by which attempt, and when (the database's clock)."""

    result: Any
    attempt: int
    fence: int
    at: datetime


def create_effects_table(engine: Engine | Connection) -> None:
    """Create the table ``denyut_effects`` in the database of ``engine`` if it is not there."""
    metadata.create_all(engine, checkfirst=True)


def find(run: JobRun, session: Any, step: str) -> Committed | None:
    """Return the effect that an earlier attempt committed (see :meth:`JobRun.committed`)."""
    _checked(session, step)
    with _taught(session):
        return _find(run, session, step)


def commit(run: JobRun, session: Any, result: Any, step: str) -> Any:
    """Commit the effect of this job, or leave it at the one that stands (see :meth:`JobRun.commit`)."""
    dialect = _checked(session, step)
    if step in run.commits:
        raise AlreadyCommitted(
            f"job {run.id}: this attempt has committed {f'step {step!r}' if step else 'its effect'} already; "
            "give each effect of a job a step of its own: commit(session, step=...)"
        )
    run.check()
    text = encode_result(result, "json")
    values = {"job_id": run.id, "task": run.task, "step": step, "fence": run.fence, "attempt": run.attempt}
    if not isinstance(session, Connection):
        session.flush()
    with _taught(session):
        insert = _INSERTS[dialect](effects).values(**values, result=text).on_conflict_do_nothing()
        # Not the row count: what a driver says of it differs.
        mine = session.execute(insert.returning(effects.c.fence)).first() is not None
        stands = None if mine else _find(run, session, step)
    if stands is not None:
        session.rollback()
        return stands.result
    _ask(run, session)
    session.commit()
    run.commits.add(step)
    return decode_result(text)


def _find(run: JobRun, session: Any, step: str) -> Committed | None:
    c = effects.c
    wanted = (c.job_id == run.id) & (c.task == run.task) & (c.step == step)
    row = session.execute(select(c.result, c.attempt, c.fence, c.committed_at).where(wanted)).first()
    if row is None:
        return None
    return Committed(result=decode_result(row[0]), attempt=row[1], fence=row[2], at=row[3])


def _ask(run: JobRun, session: Any) -> None:
    """Ask the record whether this attempt still owns the job, as late as can be; if not, undo."""
    if run.pulse is None:
        return
    pulse = run.pulse
    try:
        answer = patiently(lambda: COMMIT(pulse.store.client, pulse.keys.script(run.id), [run.id, run.fence]))
    except BaseException:
        session.rollback()
        raise
    if answer == b"OK":
        return
    session.rollback()
    if answer == b"CANCELLED":
        raise JobCancelled(f"job {run.id} was cancelled; its effect was rolled back")
    raise LeaseLost(f"job {run.id}: attempt {run.attempt} lost its lease; its effect was rolled back")


def _checked(session: Any, step: Any) -> str:
    if not isinstance(session, Session | scoped_session | Connection):
        raise TypeError(
            "commit() and committed() take a Session or Connection of SQLAlchemy, not "
            f"{type(session).__name__}. An AsyncSession: await session.run_sync(job.commit, result)"
        )
    if not isinstance(step, str) or len(step) > 100:  # noqa: PLR2004 - the width of the column
        raise ValueError(f"step={step!r}: must be a text of at most 100 characters")
    connection = session if isinstance(session, Connection) else session.connection()
    if connection.dialect.name not in _INSERTS:
        raise TypeError(f"commit() knows {' and '.join(_INSERTS)}, not {connection.dialect.name}")
    return connection.dialect.name


@contextmanager
def _taught(session: Any) -> Iterator[None]:
    """Say what to do if the table is not there."""
    try:
        yield
    except (OperationalError, ProgrammingError) as exc:
        session.rollback()
        bind = session.engine if isinstance(session, Connection) else session.get_bind()
        if inspect(bind).has_table(effects.name):
            raise
        raise ConfigurationError(
            f"there is no table {effects.name} in this database; create it once with "
            "denyut.tasks.effects.create_effects_table(engine), or put denyut.tasks.effects.metadata into "
            "your migrations"
        ) from exc
