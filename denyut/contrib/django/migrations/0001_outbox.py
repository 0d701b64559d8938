"""Make the table of the outbox."""

from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):  # type: ignore[misc]  # Django ships no types
    """The first: the table ``denyut_outbox``."""

    initial = True
    dependencies: ClassVar[list[tuple[str, str]]] = []
    operations: ClassVar = [
        migrations.CreateModel(
            name="OutboxRow",
            fields=[
                ("seq", models.BigAutoField(primary_key=True, serialize=False)),
                ("prefix", models.CharField(max_length=64)),
                ("job_id", models.CharField(db_column="id", max_length=255)),
                ("task", models.TextField()),
                ("key", models.TextField(null=True)),
                ("message", models.TextField()),
                ("created", models.BigIntegerField()),
                ("due", models.BigIntegerField(null=True)),
                ("attempts", models.IntegerField()),
                ("try_at", models.BigIntegerField(null=True)),
                ("error", models.TextField(null=True)),
            ],
            options={
                "verbose_name": "outbox row",
                "db_table": "denyut_outbox",
                "indexes": [models.Index(fields=["prefix", "try_at", "seq"], name="ix_denyut_outbox_try")],
            },
        ),
    ]
