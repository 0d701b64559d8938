"""What is remembered of deleted jobs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "1_0003", "1_0002"


def upgrade() -> None:
    """Make the table."""
    by_bytes = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.create_table(
        "denyut_gone",
        sa.Column("prefix", sa.String(64), primary_key=True),
        sa.Column("id", by_bytes, primary_key=True),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("finished_at", sa.BigInteger),
        sa.Column("gone_at", sa.BigInteger, nullable=False),
        if_not_exists=True,
    )
    op.create_index("ix_denyut_gone_at", "denyut_gone", ["prefix", "gone_at"], if_not_exists=True)
