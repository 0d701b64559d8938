"""The outbox as Django knows it: the table of :mod:`denyut.database.outbox`, owned by Django's migrations."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

__all__ = ["OutboxRow"]


class OutboxRow(models.Model):  # type: ignore[misc]  # Django ships no types
    """One job that a transaction enqueues. Written by ``app.denyut.outbox.enqueue`` alone."""

    seq = models.BigAutoField(primary_key=True)
    prefix = models.CharField(max_length=64)
    job_id = models.CharField(max_length=255, db_column="id")
    task = models.TextField()
    key = models.TextField(null=True)  # noqa: DJ001 - no key is not an empty one
    message = models.TextField()
    created = models.BigIntegerField()
    due = models.BigIntegerField(null=True)
    attempts = models.IntegerField()
    try_at = models.BigIntegerField(null=True)
    error = models.TextField(null=True)  # noqa: DJ001 - as the table has it

    class Meta:
        """The table is the same that ``denyut outbox migrate`` makes elsewhere."""

        db_table = "denyut_outbox"
        verbose_name = "outbox row"
        indexes: ClassVar = [models.Index(fields=["prefix", "try_at", "seq"], name="ix_denyut_outbox_try")]

    def __str__(self) -> str:
        return f"{self.task} {self.job_id}"
