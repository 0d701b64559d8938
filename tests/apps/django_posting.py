"""A Django shop whose orders are shipped through the outbox in its own database.

As a program: ``migrate`` makes the tables, ``sell FIRST LAST`` takes orders; every third is rolled back.
"""

from __future__ import annotations

import os
import sys

import django
from celery import Celery
from django.conf import settings
from django_project import as_django

from denyut import Denyut

settings.configure(
    DATABASES={"default": as_django(os.environ["OUTBOX_URL"])},
    INSTALLED_APPS=["denyut.contrib.django"],
    USE_TZ=True,
    CELERY_BROKER_URL=os.environ["CELERY_BROKER_URL"],
    CELERY_TASK_DEFAULT_QUEUE="django",
    CELERY_DENYUT_OUTBOX_URL="django://default",
    CELERY_DENYUT_LEASE_TTL=2.0,
)
django.setup()

from django.db import connection, transaction  # noqa: E402 - Django must be set up

app = Celery("shop", set_as_current=False)
app.config_from_object("django.conf:settings", namespace="CELERY")
Denyut(app)


@app.task(name="shop.ship", ignore_result=True)
def ship(order: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO shipped (n) VALUES (%s)", [order])


def sell(order: int) -> None:
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO orders (n) VALUES (%s)", [order])
        app.denyut.outbox.enqueue("default", ship.s(order))
        if order % 3 == 0:
            transaction.set_rollback(True)


def migrate() -> None:
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    with connection.cursor() as cursor:
        for table in ("orders", "shipped"):
            cursor.execute(f"CREATE TABLE {table} (n INTEGER)")


if __name__ == "__main__":
    if sys.argv[1] == "migrate":
        migrate()
    else:
        for number in range(int(sys.argv[2]), int(sys.argv[3])):
            sell(number)
