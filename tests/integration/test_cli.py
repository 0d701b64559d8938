"""``celery -A APP denyut ...`` as its users start it, beside real workers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from nodes.valkey import PrivateValkey
from nodes.worker import TESTS, fresh_module
from prometheus_client.parser import text_string_to_metric_families
from redis import Redis
from support import die_with_parent, wait_until


class Shell:
    """Runs commands of one app in processes of their own."""

    def __init__(self, folder: Path, app: str, url: str) -> None:
        self.app = app
        self.env = {"CELERY_BROKER_URL": url, "CELERY_RESULT_BACKEND": url, "LEASE_TTL": "1.5"}
        self._folder = folder
        self._started: list[subprocess.Popen[str]] = []

    def start(self, *args: str) -> subprocess.Popen[str]:
        """Start ``celery -A APP denyut ARGS``."""
        process = subprocess.Popen(
            [sys.executable, "-m", "celery", "-A", self.app, "denyut", *args],
            cwd=self._folder,
            env={**os.environ, "PYTHONPATH": str(TESTS), "PYTHONUNBUFFERED": "1", **self.env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=die_with_parent,
        )
        self._started.append(process)
        return process

    def run(self, *args: str, code: int = 0) -> str:
        """Run a command to its end and return what it printed (with ``code``: on stderr)."""
        out, err = self.start(*args).communicate(timeout=60)
        assert self._started[-1].returncode == code, out + err
        assert "Traceback" not in err
        return err if code else out

    def json(self, *args: str) -> Any:
        return json.loads(self.run(*args, "--json"))

    def close(self) -> None:
        for process in self._started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate(timeout=10)


@pytest.fixture
def shell(tmp_path: Path, valkey_server: PrivateValkey, valkey: Redis) -> Iterator[Callable[[str], Shell]]:
    made: list[Shell] = []

    def make(app: str) -> Shell:
        made.append(Shell(tmp_path, app, valkey_server.url))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_a_job_is_seen_from_its_queue_to_its_end(shell, worker):
    cli = shell("apps.jobs")
    node = worker("apps.jobs", env=cli.env, concurrency=1)
    job = node.module.steps.delay(6, 0.3)
    watched = [json.loads(line) for line in cli.run("jobs", "watch", job.id, "--json").splitlines()]
    assert watched[0]["verdict"] in {"queued", "running"}
    assert watched[-1]["verdict"] == "completed"
    assert [status["stage"] for status in watched if status["verdict"] == "running"][-1] == "STEPPING"
    assert node.app.denyut.jobs.result(job.id) == [0, 1, 0]
    assert cli.json("jobs", "show", job.id)["record"]["attempt"] == 1
    (listed,) = cli.json("jobs", "list", "--task", "apps.jobs.steps")["jobs"]
    assert (listed["id"], listed["state"]) == (job.id, "COMPLETED")
    assert "no job has the id" in cli.run("jobs", "show", "nobody", code=1)


def test_a_killed_worker_is_seen_by_verdict_doctor_and_metrics(shell, worker):
    cli = shell("apps.jobs")
    first = worker("apps.jobs", env=cli.env, concurrency=1)
    pulse = first.app.denyut
    job = first.module.steps.delay(8, 0.3)
    wait_until(lambda: pulse.jobs.get(job.id, fresh=True).stage == "STEPPING", 20, "the job to run")
    first.kill_all()
    wait_until(lambda: pulse.jobs.get(job.id, fresh=True).verdict == "crashed", 10, "its lease to lapse")
    exporter = cli.start("exporter", "--port", "0")
    url = exporter.stdout.readline().split()[-1]
    told = scrape(url)
    assert (told["denyut_leases_lapsed",], told["denyut_workers",]) == (1, 0)
    second = worker("apps.jobs", env=cli.env, concurrency=1)
    assert second.module.app.AsyncResult(job.id).get(timeout=30)[1:] == [2, 1]
    wait_until(lambda: pulse.jobs.get(job.id, fresh=True).record.settled, 10, "the job to be settled")

    told = scrape(url)
    events = {key[1]: value for key, value in told.items() if key[0] == "denyut_jobs_total"}
    assert events == {"enqueued": 1, "claimed": 2, "crashed": 1, "recovered": 1, "completed": 1}
    assert told["denyut_recovery_seconds_count",] == 1
    assert told["denyut_recovery_seconds_sum",] > 1.5, "the lease had to lapse"
    assert told["denyut_jobs_now", "running"] == told["denyut_jobs_now", "queued"] == 0
    assert (told["denyut_jobs_missing",], told["denyut_workers",]) == (0, 1)
    checks = {check["name"]: check["level"] for check in cli.json("doctor")}
    assert {name for name, level in checks.items() if level == "ok"} >= {
        "workers",
        "leases",
        "queues",
        "audit",
    }
    exporter.send_signal(signal.SIGTERM)
    assert exporter.wait(10) == 0


def test_a_median_worker_started_by_the_command_applies_events(shell):
    cli = shell("apps.medians")
    pulse = fresh_module("apps.medians", cli.env).pulse
    pulse.median.record_many("prices", [(float(n), f"e{n}") for n in range(1, 1002)])
    queue = next(
        name for name in doctor(cli, code=1)["queues"]["message"].split() if name.startswith("median.")
    )
    median_worker = cli.start("worker-median", "--shards", queue.rpartition(".")[2], "--without-mingle")
    wait_until(lambda: pulse.median.read("prices").count == 1001, 30, "the events to be applied")
    rows = [line.split() for line in cli.run("median", "read", "prices", "-q", "0.5", "-q", "1").splitlines()]
    assert [row[:3] for row in rows[1:]] == [["0.5", "501.0", "1001"], ["1.0", "1001.0", "1001"]]
    assert cli.json("median", "streams") == {"prices": 1001}
    wait_until(lambda: not pulse.jobs.list(state="RUNNING").jobs, 10, "the last batch to be settled")
    assert doctor(cli)["audit"]["level"] == "ok"
    os.killpg(median_worker.pid, signal.SIGTERM)
    median_worker.communicate(timeout=20)
    assert median_worker.returncode == 0


def doctor(cli: Shell, code: int = 0) -> dict[str, dict[str, str]]:
    process = cli.start("doctor", "--json")
    out, err = process.communicate(timeout=60)
    assert process.returncode == code, out + err
    return {check["name"]: check for check in json.loads(out)}


def scrape(url: str) -> dict[tuple[str, ...], float]:
    with urlopen(url, timeout=10) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    return {(s.name, *s.labels.values()): s.value for family in families for s in family.samples}


def test_an_app_that_has_no_denyut_is_told_so(shell):
    assert "this app has no Denyut" in shell("apps.plain").run("jobs", "list", code=1)
    assert "No such command" in shell("apps.jobs").run("dance", code=2)
