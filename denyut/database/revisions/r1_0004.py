"""What was done by hand."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "1_0004", "1_0003"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "denyut_audit",
        sa.Column("prefix", sa.String(64), primary_key=True),
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("pid", sa.BigInteger, nullable=False),
        sa.Column("action", sa.String(32), nullable=False),
        sa.Column("job_id", sa.Text),
        sa.Column("state_before", sa.String(16)),
        sa.Column("state_after", sa.String(16)),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("more", sa.Text, nullable=False),
        if_not_exists=True,
    )
    for name, *columns in (("at", "at", "id"), ("job", "job_id", "at", "id")):
        op.create_index(f"ix_denyut_audit_{name}", "denyut_audit", ["prefix", *columns], if_not_exists=True)
