"""Flower, as it comes, on an app whose tasks are jobs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
from nodes.worker import TESTS, CeleryWorker
from support import die_with_parent, free_port, wait_until

pytest.importorskip("flower")

#: What Flower's HTTP API says under a path.
Ask = Callable[..., Any]


@pytest.fixture
def node(worker: Any) -> CeleryWorker:
    """A worker that sends events, which is all that Flower sees."""
    return worker("apps.jobs", concurrency=1, args=("-E",))


@pytest.fixture
def flower(node: CeleryWorker, tmp_path: Path) -> Iterator[Ask]:
    """``celery flower`` with the app of ``node``, once it hears its worker."""
    port, log = free_port(), tmp_path / "flower.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "celery", "-A", "apps.jobs", "flower"),
                *("--address=127.0.0.1", f"--port={port}"),
            ],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(TESTS), "FLOWER_UNAUTHENTICATED_API": "true", **node.env},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            preexec_fn=die_with_parent,
        )

    def ask(path: str, **query: str) -> Any:
        assert process.poll() is None, f"Flower ended:\n{log.read_text('utf-8', 'replace')[-4000:]}"
        try:
            with urlopen(f"http://127.0.0.1:{port}{path}?{urlencode(query)}", timeout=10) as reply:
                return json.load(reply)
        except URLError as exc:  # it does not listen yet, or not know yet what is asked for
            if getattr(exc, "code", 404) != 404:
                raise
            return {}

    try:
        # Its status of a worker comes from events: what the worker sends from now on is not missed.
        wait_until(lambda: ask("/api/workers", status="true").get(node.name), 30, f"Flower to hear; {log}")
        yield ask
        process.send_signal(signal.SIGTERM)
        process.wait(10)
    finally:
        process.kill()
        process.wait(10)


def test_flower_sees_jobs_run_and_one_that_outlives_its_process(node: CeleryWorker, flower: Ask) -> None:
    jobs = node.module
    added = jobs.add.delay(2, 3)
    assert added.get(timeout=20) == 5
    task = wait_until(lambda: _succeeded(flower, added.id), 20, "Flower to see the end of add")
    assert (task["name"], task["result"]) == ("apps.jobs.add", "5")
    assert task["worker"] == node.name

    stepping = jobs.steps.delay(4, 0.3)
    wait_until(lambda: jobs.app.denyut.jobs.get(stepping.id, fresh=True).stage == "STEPPING", 20)
    os.kill(node.pool_pids[0], signal.SIGKILL)
    _, attempt, crashes = stepping.get(timeout=30)
    assert (attempt, crashes) == (2, 1)
    task = wait_until(lambda: _succeeded(flower, stepping.id), 20, "Flower to see the end of steps")
    assert task["name"] == "apps.jobs.steps"
    assert task["result"].endswith(", 2, 1]"), "the result of the attempt that got to the end"
    assert {added.id, stepping.id} <= set(flower("/api/tasks"))


def _succeeded(flower: Ask, job_id: str) -> Any:
    told = flower(f"/api/task/info/{job_id}")
    return told if told.get("state") == "SUCCESS" else None
