"""The page about taking effect once: its examples run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from celery import _state
from sqlalchemy import text

PAGE = Path(__file__).parents[2] / "docs" / "once.md"


@pytest.fixture
def page(tmp_path, monkeypatch, valkey_server, valkey):
    """Everything that the examples of the page define, run in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CELERY_BROKER_URL", valkey_server.url)
    # The app of the page must not become everybody's, nor its tasks those of every later app.
    monkeypatch.setattr(_state, "_on_app_finalizers", set())
    monkeypatch.setattr(_state._tls, "current_app", None, raising=False)
    names = {"__name__": "shop"}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), names)
    with names["engine"].begin() as connection:
        connection.execute(text("CREATE TABLE payments (o, a)"))
        connection.execute(text("CREATE TABLE invoices (o)"))
    yield names
    names["engine"].dispose()
    names["app"].close()
    _state._deregister_app(names["app"])


def rows(page, table):
    with page["engine"].connect() as connection:
        return [tuple(row) for row in connection.execute(text(f"SELECT * FROM {table}"))]


def test_an_effect_of_a_database_is_committed_with_its_row(page):
    assert page["pay"](7, 100) == {"paid": 100}
    assert rows(page, "payments") == [(7, 100)]
    [row] = rows(page, "denyut_effects")
    assert row[1] == page["pay"].name


def test_work_that_was_committed_is_not_begun_again(page):
    task = page["invoice"]
    results = [task.apply((9,), task_id="same").get() for _ in range(2)]
    assert results == [9, 9]
    assert rows(page, "invoices") == [(9,)]


def test_a_job_may_have_several_effects(page):
    task = page["transfer"]
    for _ in range(2):
        task.apply(([1, 2],), task_id="same").get()
    assert rows(page, "invoices") == [(1,), (2,)]


def test_steps_elsewhere_are_done_and_give_what_they_gave(page):
    page["charge"] = lambda order, idempotency_key: [order, bool(idempotency_key)]
    mailed = []
    page["send_mail"] = lambda *args: mailed.append(args)
    assert page["order_placed"](3) == [3, True]
    assert mailed == [(3, [3, True])]
