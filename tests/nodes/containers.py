"""What pytest-celery takes for containers: processes of this machine, without Docker.

pytest-celery asks a container for its state, its log and its configuration, and tells it to end or to
start again. The classes here answer for :class:`PrivateValkey` and :class:`CeleryWorker`.
"""

from __future__ import annotations

import gc
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

from celery.result import AsyncResult
from nodes.valkey import PrivateValkey
from nodes.worker import CeleryWorker
from pytest_celery import CeleryWorkerContainer, RedisContainer, RedisTestBackend


def _number(name: str | int) -> int:
    return name if isinstance(name, int) else getattr(signal, name)


class ValkeyContainer(RedisContainer):
    """A private Valkey as broker or result backend. Killed or restarted, it keeps port and data."""

    def __init__(self, server: PrivateValkey) -> None:
        self.server = server

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def host_url(self) -> str:
        return self.server.url

    @property
    def hostname(self) -> str:
        return "127.0.0.1"

    @property
    def port(self) -> int:
        return self.server.port

    @property
    def id(self) -> str:
        return f"valkey-{self.server.port}"

    @property
    def name(self) -> str:
        return self.id

    @property
    def status(self) -> str:
        return "running" if self.server.running else "exited"

    def ready(self) -> bool:
        return self.server.running  # start() returns when it answers

    def reload(self) -> None:
        """Nothing is cached."""

    def kill(self, signal: str | int = "SIGKILL") -> None:
        self.server.end(_number(signal))

    def restart(self, timeout: int = 10) -> None:
        self.server.stop()
        self.server.start()

    def logs(self) -> str:
        return self.server.log.read_text("utf-8", "replace")

    def teardown(self) -> None:
        """The fixture that started the server ends it: broker and backend are one."""


class ValkeyBackend(RedisTestBackend):
    """The backend's node. Results outlive the server; their last act must not be to look for it."""

    def teardown(self) -> None:
        gc.collect()
        for each in gc.get_objects():
            # By type(): the stock isinstance() wakes every lazy object of the process, such as
            # Django's settings and the tasks of apps whose configuration does not exist.
            if issubclass(type(each), AsyncResult):
                each.backend = None


class WorkerContainer(CeleryWorkerContainer):
    """A real worker on the app that pytest-celery writes. SIGKILL takes the whole node, as in Docker.

    Args:
        folder: where the app's files go.
        content: the app's files, as ``initial_content`` makes them.
        env: the worker's environment.
    """

    def __init__(self, folder: Path, content: dict[str, bytes], env: dict[str, str]) -> None:
        self._id = uuid4().hex
        self.folder = folder / f"worker-{self.id[:12]}"
        for name, text in content.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text)
        self.environment = {**env, "PYTHONPATH": str(self.folder)}
        self.node = CeleryWorker(
            "app",
            self.folder,
            env=self.environment,
            name=f"{self.worker_name()}@{self.id[:12]}",  # what CeleryTestWorker.hostname() expects
            queues=[self.worker_queue()],
            args=["--loglevel", self.log_level()],
        )

    @property
    def id(self) -> str:
        return self._id

    @classmethod
    def version(cls) -> str:
        from celery import __version__

        return __version__

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def status(self) -> str:
        return "running" if self.node.running else "exited"

    def ready(self) -> bool:
        return self.node.running  # start() returns when it consumes

    def reload(self) -> None:
        """Nothing is cached."""

    def kill(self, signal: str | int = "SIGKILL") -> None:
        if _number(signal) == _number("SIGKILL"):
            self.node.kill_all()
        else:
            self.node.send_signal(_number(signal))

    def restart(self, timeout: int = 10) -> None:
        self.node.stop(timeout)
        self.node.start()

    def logs(self) -> str:
        return self.node.logs()

    def exec_run(self, cmd: str, **_: Any) -> tuple[int, bytes]:
        words = shlex.split(cmd)
        words[0] = sys.executable if words[0] == "python" else words[0]
        done = subprocess.run(words, cwd=self.folder, env=self.environment, capture_output=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def teardown(self) -> None:
        self.node.kill_all()
