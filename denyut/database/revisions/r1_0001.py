"""One row for each job, one for each entry of its story."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "1_0001", None


def upgrade() -> None:
    """Make both tables."""
    op.create_table(
        "denyut_jobs",
        sa.Column("prefix", sa.String(64), primary_key=True),
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("settled", sa.Boolean, nullable=False),
        sa.Column("task", sa.Text, nullable=False),
        sa.Column("queue", sa.Text, nullable=False),
        sa.Column("key", sa.Text),
        sa.Column("digest", sa.String(64)),
        sa.Column("queued_at", sa.BigInteger),
        sa.Column("due", sa.BigInteger),
        sa.Column("finished_at", sa.BigInteger),
        sa.Column("forget_at", sa.BigInteger),
        sa.Column("budget", sa.String(16)),
        sa.Column("record", sa.Text, nullable=False),
        if_not_exists=True,
    )
    op.create_table(
        "denyut_events",
        sa.Column("prefix", sa.String(64), primary_key=True),
        sa.Column("job_id", sa.Text, primary_key=True),
        sa.Column("ms", sa.BigInteger, primary_key=True),
        sa.Column("seq", sa.BigInteger, primary_key=True),
        sa.Column("type", sa.Text, nullable=False),
        sa.Column("fields", sa.Text, nullable=False),
        if_not_exists=True,
    )
