from __future__ import annotations

import logging

from support import wait_until

from denyut.tasks.saving.breaker import Breaker

URL = "postgresql+psycopg://me:s3cret@db/jobs"


def test_a_store_that_is_down_is_left_alone_for_a_while():
    breaker = Breaker(URL, pause=0.05)
    assert not breaker.is_open
    breaker.failed(OSError("gone"))
    assert breaker.is_open
    wait_until(lambda: not breaker.is_open, 5, "the pause to end")
    breaker.failed(OSError("gone"))
    breaker.worked()
    assert not breaker.is_open


def test_a_loss_and_a_return_are_one_line_each(caplog):
    caplog.set_level(logging.INFO)
    breaker = Breaker(URL)
    for _ in range(5):
        breaker.failed(OSError("gone"))
    for _ in range(5):
        breaker.worked()
    lost, back = [record.getMessage() for record in caplog.records]
    assert "cannot be written (OSError: gone)" in lost
    assert "is back" in back


def test_tables_that_are_not_there_are_told_with_what_to_do():
    text = Breaker(URL).failed(OSError("(sqlite3.OperationalError) no such table: denyut_jobs"))
    assert text.endswith("make the tables: celery -A APP denyut migrate")


def test_a_password_is_not_shown(caplog):
    breaker = Breaker(URL)
    text = breaker.failed(OSError("no entry for me:s3cret@db\nand more"))
    assert breaker.error == text == "OSError: no entry for me:***@db"
    assert "s3cret" not in caplog.text
