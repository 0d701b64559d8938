"""A real ``celery worker`` as a process that tests may kill, pause and stop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import uuid4

from support import children, die_with_parent, is_running, wait_until

TESTS = Path(__file__).parent.parent
#: The workers import what the tests import, also where another copy of the package is installed.
_PATH = os.pathsep.join([str(TESTS), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))])
_READY_TIMEOUT = 30.0  # two slow shared cores, five teams of processes


class CeleryWorker:
    """One worker node: the main process, its pool, and its log file.

    Args:
        app_module: importable from ``tests``, such as ``apps.plain``; has ``app``.
        folder: where the log goes.
        env: what the app module reads, such as ``CELERY_BROKER_URL``.
        queues: queues to consume; None for the default queue of the app.
        concurrency: size of the pool.
        pool: ``prefork``, ``solo``, ``threads``, ``gevent`` or ``eventlet``.
        name: the node's name; a new one if not given.
        args: further arguments of ``celery worker``.
    """

    def __init__(
        self,
        app_module: str,
        folder: Path,
        *,
        env: Mapping[str, str],
        queues: Sequence[str] | None = None,
        concurrency: int = 2,
        pool: str = "prefork",
        name: str | None = None,
        args: Sequence[str] = (),
    ) -> None:
        self.app_module = app_module
        self.name = name or f"w{uuid4().hex[:8]}@test"
        self.folder = folder
        self.log = folder / f"{self.name}.log"
        self.env = dict(env)
        self._command = [
            *(sys.executable, "-m", "celery", "-A", app_module, "worker", "-n", self.name, "-l", "INFO"),
            *("-c", str(concurrency), "-P", pool, "--without-gossip", "--without-mingle"),
            *(("-Q", ",".join(queues)) if queues else ()),
            *args,
        ]
        self._process: subprocess.Popen[bytes] | None = None
        self._module: ModuleType | None = None

    @property
    def module(self) -> ModuleType:
        """The app module, imported into this process under the worker's environment, for this test alone."""
        if self._module is None:
            self._module = fresh_module(self.app_module, self.env)
        return self._module

    @property
    def app(self) -> Any:
        """The app of ``module``: send tasks with it."""
        return self.module.app

    @property
    def pid(self) -> int:
        """The main process."""
        assert self._process is not None, "the worker was not started"
        return self._process.pid

    @property
    def pool_pids(self) -> list[int]:
        """The live children of the main process, oldest first."""
        found = sorted(children(self.pid).values(), key=lambda p: (p.start, p.pid))
        return [p.pid for p in found if p.state not in "ZX" and "tracker" not in p.command]

    @property
    def running(self) -> bool:
        """Whether the main process lives."""
        return self._process is not None and self._process.poll() is None

    def logs(self) -> str:
        """Everything that the node has written."""
        return self.log.read_text("utf-8", "replace") if self.log.exists() else ""

    def start(self, *, wait: bool = True) -> CeleryWorker:
        """Start the node, and wait until it consumes unless told otherwise."""
        assert not self.running, "the worker is running already"
        offset = len(self.logs())
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=self.folder,
                env={**os.environ, "PYTHONPATH": _PATH, "PYTHONUNBUFFERED": "1", **self.env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
        if wait:
            self.wait_ready(offset)
        return self

    def wait_ready(self, offset: int = 0) -> None:
        """Wait for the line that the worker logs when it has begun to consume."""

        def ready() -> bool:
            assert self.running, f"the worker ended:\n{self.logs()[-4000:]}"
            return f"{self.name} ready." in self.logs()[offset:]

        wait_until(ready, _READY_TIMEOUT, f"{self.name} to be ready; log: {self.log}")

    def send_signal(self, number: int) -> None:
        """Send a signal to the main process only."""
        os.kill(self.pid, number)

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send a signal, SIGKILL by default, to the main process and wait for its end."""
        self.send_signal(number)
        self.wait()

    def kill_all(self) -> None:
        """SIGKILL the main process and all its children at once, as a dying host would."""
        if self._process is None:
            return
        pool = self.pool_pids if self.running else []
        with suppress(ProcessLookupError):  # the whole group may be gone already
            os.killpg(self.pid, signal.SIGKILL)
        self.wait()
        wait_until(lambda: not any(map(is_running, pool)), what="the pool to end")

    def wait(self, timeout: float = 20.0) -> int:
        """Wait for the end of the main process and return its exit code."""
        assert self._process is not None
        return self._process.wait(timeout)

    def stop(self, timeout: float = 10.0) -> None:
        """Warm shutdown; whatever is left after ``timeout`` seconds is killed."""
        if self._process is None:
            return
        if self.running:
            self.send_signal(signal.SIGCONT)
            self.send_signal(signal.SIGTERM)
            try:
                self._process.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill_all()
        self.kill_all()


def fresh_module(name: str, env: Mapping[str, str]) -> ModuleType:
    """Import ``name`` anew with ``env`` in the environment: its app is bound to this test's server."""
    before = dict(os.environ)
    sys.modules.pop(name, None)
    os.environ.update(env)
    try:
        return import_module(name)
    finally:
        os.environ.clear()
        os.environ.update(before)
