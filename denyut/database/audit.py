"""What was done by hand, in SQL: written once, read newest first, deleted when its time is over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, select, tuple_

from denyut.database.save import insert_into
from denyut.database.tables import audit_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection

__all__ = ["UNKNOWN", "prune_audit", "read_audit", "save_audit"]

#: The outcome of what was begun, and whose process has not said how it ended: what it says later counts.
UNKNOWN = "unknown"


def save_audit(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows of ``denyut_audit``. One that is there is replaced only if its outcome was not known."""
    if not rows:
        return
    audit = audit_table()
    insert = insert_into(connection, audit)
    others = {c.name: insert.excluded[c.name] for c in audit.c if not c.primary_key}
    statement = insert.on_conflict_do_update(
        index_elements=["prefix", "id"], set_=others, where=audit.c.outcome == UNKNOWN
    )
    connection.execute(statement, sorted(rows, key=lambda row: str(row["id"])))


def read_audit(
    connection: Connection,
    prefix: str,
    *,
    job_id: str | None = None,
    before: tuple[int, str] | None = None,
    limit: int = 100,
) -> list[dict[str, Any]]:
    """Return rows, newest first.

    Args:
        connection: to the job store.
        prefix: of the deployment.
        job_id: only those of this job.
        before: time (us) and id of the last row of the page before.
        limit: most rows.
    """
    audit = audit_table()
    query = select(audit).where(audit.c.prefix == prefix)
    if job_id is not None:
        query = query.where(audit.c.job_id == job_id)
    if before is not None:
        place = tuple_(audit.c.at, audit.c.id) < tuple_(*before)
        query = query.where(audit.c.at <= before[0], place)
    query = query.order_by(audit.c.at.desc(), audit.c.id.desc()).limit(limit)
    return [dict(row) for row in connection.execute(query).mappings()]


def prune_audit(connection: Connection, prefix: str, before_us: int, *, limit: int = 500) -> int:
    """Delete what was done before ``before_us``, oldest first; returns how many rows."""
    audit = audit_table()
    old = select(audit.c.id).where(audit.c.prefix == prefix, audit.c.at < before_us)
    ids = list(connection.execute(old.order_by(audit.c.at).limit(limit)).scalars())
    if ids:
        connection.execute(delete(audit).where(audit.c.prefix == prefix, audit.c.id.in_(ids)))
    return len(ids)
