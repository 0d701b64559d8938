"""The model is the table, as Denyut writes and reads it."""

from __future__ import annotations

from io import StringIO

from django.core.management import call_command
from sqlalchemy.orm import Session

from denyut.contrib.django.models import OutboxRow
from denyut.database.outbox import OUTBOX, outbox
from denyut.tasks.outbox.places import places


def test_the_model_has_the_columns_of_the_table():
    columns = {field.column: field for field in OutboxRow._meta.get_fields()}
    assert OutboxRow._meta.db_table == OUTBOX
    assert list(columns) == [column.name for column in outbox().columns]
    for column in outbox().columns:
        assert columns[column.name].null == bool(column.nullable), column.name


def test_the_model_has_no_change_that_no_migration_makes():
    call_command("makemigrations", "denyut", check=True, dry_run=True, stdout=StringIO())


def test_the_model_reads_what_an_enqueue_wrote(migrated, pulse):
    made = pulse(denyut_outbox_url="django://shop")

    @made.app.task(name="t.sold", shared=False)
    def sold(n: int) -> None:
        """It is not run here."""

    database = places(made)[0].open(1.0)
    with Session(database.engine) as session, session.begin():
        result = made.outbox.enqueue(session, sold.s(1), idempotency_key="k")
    found = OutboxRow.objects.using("shop").get()
    assert (found.job_id, found.task, found.key, found.attempts, found.try_at) == (
        result.id,
        "t.sold",
        "k",
        0,
        0,
    )
    assert str(found) == f"t.sold {result.id}"
    made.outbox.close()
    database.close()
