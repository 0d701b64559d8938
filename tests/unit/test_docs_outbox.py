"""The page about the outbox: its examples run."""

from __future__ import annotations

import re
from pathlib import Path

import django_project
import pytest
from celery import Celery
from sqlalchemy import create_engine, text
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from denyut import Denyut
from denyut.database.outbox import outbox
from denyut.database.outbox_make import make_outbox

PAGE = Path(__file__).parents[2] / "docs" / "outbox.md"
django_project.configure()


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)

    @property
    def pk(self) -> int:
        return self.id

    def save(self) -> None:
        """As a model of Django."""


@pytest.fixture
def names(tmp_path, valkey_server, valkey):
    """What the examples of the page take for granted."""
    app = Celery("shop", broker=valkey_server.url, set_as_current=False)
    Denyut(app)

    @app.task(shared=False)
    def send_invoice(order):
        """It is not run here."""

    engine = create_engine(f"sqlite:///{tmp_path}/shop.db")
    make_outbox(engine)
    Base.metadata.create_all(engine)
    yield {
        "app": app,
        "engine": engine,
        "Session": Session,
        "order": Order(id=7),
        "send_invoice": send_invoice,
    }
    app.denyut.outbox.close()
    app.denyut.store.close()
    engine.dispose()
    app.close()


def blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_order_and_job_are_committed_together(names):
    exec(compile(blocks()[0], str(PAGE), "exec"), names)
    with names["engine"].connect() as connection:
        [row] = connection.execute(outbox().select()).all()
        assert connection.execute(text("SELECT id FROM orders")).scalars().all() == [7]
    assert (row.id, row.key) == (names["result"].id, "invoice:7")


def test_in_django_too(names):
    from django.core.management import call_command
    from django.db import connection, transaction

    call_command("migrate", verbosity=0)
    names["app"].conf.denyut_outbox_url = "django://default"
    exec(compile(blocks()[1], str(PAGE), "exec"), {**names, "transaction": transaction})
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM denyut_outbox")
        assert cursor.fetchone() == (1,)
    connection.close()


def test_there_is_no_example_that_is_not_run():
    assert len(blocks()) == 2
