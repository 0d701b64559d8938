"""Lists: the place of each job, and an index for each list."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "1_0002", "1_0001"

_ENDED = "('COMPLETED', 'FAILED', 'CANCELLED', 'EXPIRED', 'IGNORED', 'REJECTED', 'DEAD')"
#: As the snapshots have it, as far as columns know.
_PLACE = f"""
    UPDATE denyut_jobs SET at = CASE
        WHEN state IN {_ENDED} THEN coalesce(finished_at, version)
        WHEN state = 'RUNNING' THEN version
        WHEN state = 'QUEUED' THEN coalesce(queued_at, version)
        ELSE coalesce(due, version)
    END WHERE at IS NULL
"""  # noqa: S608 - nobody's words but ours


def upgrade() -> None:
    """Add the place, fill it, and index it in place of what was indexed before."""
    connection = op.get_bind()
    there = {column["name"] for column in sa.inspect(connection).get_columns("denyut_jobs")}
    if "at" not in there:
        op.add_column("denyut_jobs", sa.Column("at", sa.BigInteger))
    if connection.dialect.name == "postgresql":  # else it is by bytes already
        op.alter_column("denyut_jobs", "id", type_=sa.Text(collation="C"), existing_type=sa.Text())
    op.execute(_PLACE)
    for name in ("state", "task", "digest", "forget"):
        op.drop_index(f"ix_denyut_jobs_{name}", "denyut_jobs", if_exists=True)
    _index("state_at", "state", "at", "id")
    _index("task_at", "task", "state", "at", "id")
    _index("key_at", "key", "at", "id", where="key IS NOT NULL")
    _index("dead_at", "at", "id", where="budget IS NOT NULL AND forget_at IS NULL")
    _index("forget", "forget_at", where="forget_at IS NOT NULL")


def _index(name: str, *columns: str, where: str | None = None) -> None:
    only = None if where is None else sa.text(where)
    op.create_index(
        f"ix_denyut_jobs_{name}",
        "denyut_jobs",
        ["prefix", *columns],
        if_not_exists=True,
        postgresql_where=only,
        sqlite_where=only,
    )
