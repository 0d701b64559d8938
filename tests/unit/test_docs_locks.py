"""The page about locks: its example runs, and refuses a late writer."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from celery import _state
from sqlalchemy import text

from denyut.errors import LockLost

PAGE = Path(__file__).parents[2] / "docs" / "locks.md"


@pytest.fixture
def page(tmp_path, monkeypatch, valkey_server, valkey):
    """Everything that the long example of the page defines, run in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CELERY_BROKER_URL", valkey_server.url)
    monkeypatch.setattr(_state, "_on_app_finalizers", set())
    monkeypatch.setattr(_state._tls, "current_app", None, raising=False)
    names = {"__name__": "shop"}
    block = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[1]
    exec(compile(block, str(PAGE), "exec"), names)
    yield names
    names["app"].denyut.lock_keeper.stop()
    names["engine"].dispose()
    names["app"].close()
    _state._deregister_app(names["app"])


def stock(page):
    with page["engine"].connect() as connection:
        return tuple(connection.execute(text("SELECT n, fence FROM stock")).one())


def test_the_holder_writes_with_its_fence(page):
    page["count_stock"]("tea", lambda _: 7)
    first = stock(page)
    page["count_stock"]("tea", lambda _: 8)
    assert (first[0], stock(page)[0]) == (7, 8)
    assert stock(page)[1] > first[1] > 0


def test_one_who_was_paused_while_another_wrote_is_refused(page):
    def paused(_):
        with page["engine"].begin() as connection:
            connection.execute(text("UPDATE stock SET n = 9, fence = 9000000000000000"))
        return 7

    with pytest.raises(LockLost, match="higher fence"):
        page["count_stock"]("tea", paused)
    assert stock(page)[0] == 9
