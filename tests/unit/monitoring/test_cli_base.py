"""What all commands share: a user's mistake is one line and exit code 1, never a traceback."""

from __future__ import annotations

import pytest
from celery import Celery
from support import free_port

from denyut import Denyut

COMMANDS = [
    ("jobs", "list"),
    ("jobs", "show", "x"),
    ("jobs", "watch", "x"),
    ("median", "read", "s"),
    ("median", "streams"),
    ("doctor",),
    ("exporter",),
    ("worker-median",),
]


def says_one_line(result) -> str:
    assert isinstance(result.exception, SystemExit), repr(result.exception)
    assert result.exit_code == 1
    assert len(result.output.splitlines()) == 1, result.output
    return result.output


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_an_app_without_denyut_is_told_how_to_get_it(invoke, command):
    line = says_one_line(invoke(Celery("plain", set_as_current=False), *command))
    assert "write Denyut(app) after app = Celery(...)" in line


@pytest.mark.parametrize("command", COMMANDS[:5], ids=" ".join)
def test_a_redis_that_is_away_is_one_line(invoke, pulse, command):
    away = pulse(url=f"redis://127.0.0.1:{free_port()}/0", denyut_redis_timeout=0.2)
    assert says_one_line(invoke(away.app, *command)).startswith("Error: Redis: ")


@pytest.mark.parametrize("command", [("jobs", "list"), ("exporter",), ("doctor",)], ids=" ".join)
def test_without_any_redis_the_way_out_is_told(invoke, command):
    app = Celery("none", set_as_current=False, broker="memory://")
    Denyut(app)
    assert "DENYUT_REDIS_URL" in says_one_line(invoke(app, *command))


def test_a_bad_setting_is_one_line(invoke):
    app = Celery("bad", set_as_current=False, broker="memory://")
    Denyut(app)
    app.conf.denyut_lease_ttl = "long"
    assert "denyut_lease_ttl='long'" in says_one_line(invoke(app, "jobs", "list"))


def test_an_error_of_many_lines_is_told_in_one(invoke, pulse):
    assert "name" in says_one_line(invoke(pulse().app, "median", "read", "\n\n"))
