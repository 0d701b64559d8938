"""Denyut without any configuration: worker and client of one project find each other."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from nodes.starter import Starter
from nodes.worker import CeleryWorker
from support import is_running, wait_until

from denyut.embedded import Server, ensure_server
from denyut.embedded_folder import Folder

NoConfiguration = Callable[[], CeleryWorker]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.delenv("DENYUT_EMBEDDED")
    (tmp_path / "pyproject.toml").touch()
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    folder = Folder.of(tmp_path)
    wait_until(lambda: not folder.is_in_use(), timeout=20, what="the embedded server to be gone")


@pytest.fixture
def node(project: Path) -> Iterator[CeleryWorker]:
    """A worker of the project, not yet started, and without any address in its environment."""
    made = CeleryWorker("apps.bare", project, env={}, concurrency=1)
    yield made
    made.kill_all()
    if made._module is not None:
        made.app.denyut.store.close()
        made.app.close()


def server_of(project: Path) -> Server:
    wait_until(lambda: Folder.of(project).read_state(), what="the embedded server's state")
    return ensure_server(project)


def test_the_first_process_starts_the_server_and_the_other_talks_to_it_through_it(project, node):
    node.start()
    server = server_of(project)
    assert not server.started_here
    assert node.module.add.delay(2, 3).get(timeout=20) == 5
    node.kill(signal.SIGTERM)
    wait_until(lambda: not is_running(server.pid), what="the server to end with its starter")


def test_a_job_survives_the_death_of_the_whole_node_with_its_server(project, node):
    node.start()
    pid = server_of(project).pid
    result = node.module.slow.delay(1.5)
    wait_until(lambda: result.id in node.logs(), what="the job to be received")
    wait_until(lambda: node.app.denyut.jobs.get(result.id).state == "RUNNING", what="the job to run")
    node.kill_all()
    wait_until(lambda: not is_running(pid), what="the server to end")
    node.start()
    assert server_of(project).pid != pid
    assert result.get(timeout=30) == 2, "the second attempt got to the end"


def test_a_worker_goes_on_when_the_process_that_started_the_server_is_gone(project, node):
    first = Starter(project)
    try:
        pid = first.go()["pid"]
        node.start()
        assert node.module.add.delay(1, 1).get(timeout=20) == 2
    finally:
        first.kill()
    wait_until(lambda: not is_running(pid), what="the first server to end")
    wait_until(
        lambda: (Folder.of(project).read_state() or (pid,))[0] != pid, 30, "the worker to start another"
    )
    assert node.module.add.delay(2, 2).get(timeout=30) == 4
    assert os.getpid() != pid
