"""The points at which processes of the kill campaign kill themselves."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from faults.points import PLACES, Faults, kills

ROOT = Path(__file__).parents[3]

_SCRIPT = """
import sys
from pathlib import Path
from faults.points import Faults
faults = Faults("7", {sys.argv[1]: 1.0}, Path(sys.argv[2]))
faults.install()
from redis import Redis
client = Redis.from_url(sys.argv[3])
import denyut.tasks.once as once
from denyut.keys import Keys
once.ONCE(client, Keys().script("id"), ["id", 1, "once:t:a", "", 9])
print("alive", flush=True)
"""


def run(point, log, url):
    return subprocess.run(
        [sys.executable, "-c", _SCRIPT, point, str(log), url],
        capture_output=True,
        text=True,
        cwd=ROOT / "tests",
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"},
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("point", ["before once", "after once", "once", ""])
def test_a_process_kills_itself_at_the_point_and_has_said_so(tmp_path, valkey_server, valkey, point):
    done = run(point, tmp_path / "log", valkey_server.url)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert "alive" not in done.stdout
    [(role, where)] = kills(tmp_path / "log")
    assert role == "child"
    assert where == ("before once" if point in ("", "once") else point)


def test_a_process_lives_that_passes_other_points_only(tmp_path, valkey_server, valkey):
    done = run("after claim", tmp_path / "log", valkey_server.url)
    assert "alive" in done.stdout, done.stderr
    assert kills(tmp_path / "log") == []


def test_the_nearest_rate_counts(tmp_path):
    faults = Faults("1", {"": 0.1, "claim": 0.2, "after claim": 0.3}, tmp_path / "log")
    rates = [faults.rate(point) for point in ("after claim", "before claim", "before finish")]
    assert rates == [0.3, 0.2, 0.1]


def test_without_rates_nothing_kills(tmp_path):
    faults = Faults("1", {}, tmp_path / "log")
    for _ in range(1000):
        faults.point("after claim")


def test_the_environment_says_who_has_which_rates(tmp_path, monkeypatch):
    rates = {"": {"a": 0.5}, "producer": {"b": 0.25}}
    monkeypatch.setenv("FAULTS", Faults.to_env("3", rates, tmp_path / "log")["FAULTS"])
    assert Faults.from_env("worker").rates == {"a": 0.5}
    assert Faults.from_env("producer").rates == {"b": 0.25}
    monkeypatch.delenv("FAULTS")
    assert Faults.from_env("worker") is None


def test_every_place_exists():
    from importlib import import_module

    for _, where, name in PLACES:
        module, _, owner = where.partition(":")
        holder = import_module(module)
        assert callable(getattr(getattr(holder, owner) if owner else holder, name)), where


def test_rates_survive_the_way_through_the_environment(tmp_path):
    text = Faults.to_env("3", {"": {"": 0.001}}, tmp_path)["FAULTS"]
    assert json.loads(text)["rates"] == {"": {"": 0.001}}
