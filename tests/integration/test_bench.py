"""``make bench`` in its shortest form: the numbers mean nothing, but all of them are there."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

RUN = Path(__file__).parents[1] / "bench" / "run.py"


JOBS = ("jobs", "jobs_worker_cpu", "jobs_server_cpu")
ENQUEUES = ("enqueue_unkeyed", "enqueue_keyed", "enqueue_duplicate")
BEAT = ("beat", "track")
BULK = ("bulk_unkeyed", "bulk_keyed")
STORE = [
    name
    for database in ("sqlite", "postgresql")
    for name in (*(f"{each}_{database}" for each in JOBS), f"enqueue_{database}_through")
]
STORED = [f"{name}_sqlite_stored" for name in ("claim", "claim_lost", "list", "write", "purge")]
#: What each part measures; parts that are short are run together.
PARTS = {
    ("jobs", "enqueue", "bulk", "beat", "commit", "median"): {
        *JOBS,
        *ENQUEUES,
        *BULK,
        *BEAT,
        "commit",
        "median_apply",
    },
    ("store",): set(STORE),
    ("stored",): set(STORED),
}


def run(*args: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(RUN), "--seconds", "0", *args],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


@pytest.mark.slow
@pytest.mark.parametrize("parts", PARTS, ids="-".join)
def test_every_ratio_is_measured_and_the_last_line_is_json(parts):
    result = run("--stored", "20000", *(word for part in parts for word in ("--only", part)))
    assert result.pop("load") >= 0
    assert (result.pop("longest_purge_ms", 0) > 0) == ("stored" in parts)
    assert result.keys() == PARTS[parts]
    for ratio in result.values():
        assert 0 < ratio["ratio_low"] <= ratio["ratio"] <= ratio["ratio_high"]
        assert ratio["pairs"] == 3


def test_every_part_is_tested():
    told = subprocess.run([sys.executable, str(RUN), "--help"], capture_output=True, text=True, check=True)
    names = re.search(r"--only \{([a-z,]+)\}", told.stdout)
    assert names is not None
    assert {part for parts in PARTS for part in parts} == set(names[1].split(","))
