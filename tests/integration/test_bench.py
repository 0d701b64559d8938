"""``make bench`` in its shortest form: the numbers mean nothing, but all of them are there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).parents[1] / "bench" / "run.py"


@pytest.mark.slow
def test_every_ratio_is_measured_and_the_last_line_is_json():
    done = subprocess.run(
        [sys.executable, str(RUN), "--seconds", "0"], capture_output=True, text=True, timeout=110, check=False
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    names = {
        "jobs",
        "jobs_worker_cpu",
        "jobs_server_cpu",
        "enqueue_unkeyed",
        "enqueue_keyed",
        "enqueue_duplicate",
        "commit",
        "median_apply",
    }
    for database in ("sqlite", "postgresql"):
        names |= {f"{name}_{database}" for name in ("jobs", "jobs_worker_cpu", "jobs_server_cpu")}
        names.add(f"enqueue_{database}_through")
    assert result.keys() == names | {"load"}
    for name in names:
        assert 0 < result[name]["ratio_low"] <= result[name]["ratio"] <= result[name]["ratio_high"]
        assert result[name]["pairs"] == 3
