"""The command line is found by Celery, and costs its other commands nothing."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

from denyut.monitoring.cli import denyut


def test_celery_finds_the_command_through_its_entry_point():
    (found,) = entry_points(group="celery.commands", name="denyut")
    assert found.load() is denyut


def test_all_commands_are_there():
    assert set(denyut.commands) == {
        "jobs",
        "locks",
        "median",
        "audit",
        "doctor",
        "exporter",
        "migrate",
        "outbox",
        "worker-median",
    }
    names = {"show", "list", "watch", "retry", "dead", "explain"}
    names |= {"cancel", "release", "reschedule", "reindex", "restore"}
    assert set(denyut.commands["jobs"].commands) == names
    assert set(denyut.commands["jobs"].commands["dead"].commands) == {"list", "show", "retry", "purge"}
    assert set(denyut.commands["median"].commands) == {"read", "streams"}


def test_what_prints_data_takes_json():
    jobs, median = dict(denyut.commands["jobs"].commands), denyut.commands["median"].commands
    dead = jobs.pop("dead").commands
    for command in (*jobs.values(), *dead.values(), *median.values(), denyut.commands["doctor"]):
        assert "as_json" in [parameter.name for parameter in command.params], command.name


def test_loading_it_imports_nothing_heavy():
    heavy = {"celery", "redis", "prometheus_client"}
    script = f"import sys, denyut.monitoring.cli; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
