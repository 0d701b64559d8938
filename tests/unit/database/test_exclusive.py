"""One at a time."""

from __future__ import annotations

import subprocess
import sys
from threading import Event, Thread
from time import monotonic

import pytest
from sqlalchemy import inspect, text
from sqlalchemy.exc import OperationalError

from denyut.database.engine import Database
from denyut.database.exclusive import exclusive


@pytest.fixture
def other(empty):
    """As another process has it."""
    made = Database(empty.url.render_as_string(hide_password=False), timeout=0.3)
    yield made
    made.close()


def test_of_two_at_once_one_waits_until_the_other_has_committed(empty, other):
    inside, seen = Event(), []

    def second() -> None:
        inside.wait(5)
        with exclusive(other.engine, wait=10.0) as connection:
            seen.append(inspect(connection).has_table("t"))

    thread = Thread(target=second)
    thread.start()
    with exclusive(empty.engine, wait=1.0) as connection:
        connection.execute(text("CREATE TABLE t (a INTEGER)"))
        inside.set()
        thread.join(0.8)  # longer than the other's own patience for a statement
        assert thread.is_alive()
        assert seen == []
    thread.join(10)
    assert seen == [True]


def test_one_that_waits_in_vain_says_so(empty, other):
    with exclusive(empty.engine, wait=1.0):
        began = monotonic()
        with pytest.raises(OperationalError, match="lock"), exclusive(other.engine, wait=0.4):
            pass
        assert monotonic() - began < 5


def test_an_error_takes_everything_back_also_a_table(empty):
    def fail() -> None:
        with exclusive(empty.engine, wait=1.0) as connection:
            connection.execute(text("CREATE TABLE t (a INTEGER)"))
            connection.execute(text("INSERT INTO t VALUES (1)"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not inspect(empty.engine).has_table("t")


def test_the_patience_of_other_statements_is_as_before(empty):
    ask = "PRAGMA busy_timeout" if empty.engine.dialect.name == "sqlite" else "SHOW statement_timeout"
    with empty.engine.connect() as connection:
        before = connection.exec_driver_sql(ask).scalar()
    with exclusive(empty.engine, wait=7.0) as connection:
        assert connection.exec_driver_sql(ask).scalar() != before
    with empty.engine.connect() as connection:
        assert connection.exec_driver_sql(ask).scalar() == before


KILLED = """
import sys, time
from denyut.database.engine import Database
from denyut.database.exclusive import exclusive
with exclusive(Database(sys.argv[1], timeout=1.0).engine, wait=1.0) as connection:
    connection.exec_driver_sql("CREATE TABLE t (a INTEGER)")
    print("inside", flush=True)
    time.sleep(60)
"""


def test_a_process_that_is_killed_inside_leaves_nothing_and_nobody_waits_for_it(empty):
    url = empty.url.render_as_string(hide_password=False)
    child = subprocess.Popen([sys.executable, "-c", KILLED, url], stdout=subprocess.PIPE)
    try:
        assert child.stdout.readline() == b"inside\n"
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
    with exclusive(empty.engine, wait=10.0) as connection:
        assert not inspect(connection).has_table("t")
