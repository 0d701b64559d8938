"""One process of Celery's suite on a private server, and the end of everything that it started."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Self

from nodes.valkey import PrivateValkey
from redis import Redis
from suite_environment import ROOT, SuiteEnvironment
from suite_report import ModuleReport, read_report
from support import die_with_parent

__all__ = ["SuiteRunner", "count_claims"]

PLUG = Path(__file__).parent / "plug"


class SuiteRunner:
    """Runs parts of the suite of one Celery, stock or with Denyut. Use it in a ``with`` statement.

    Args:
        environment: the prepared environment.
        denyut: whether every task is a job.
        limit: seconds that one process may take.
    """

    def __init__(self, environment: SuiteEnvironment, *, denyut: bool, limit: float = 3600.0) -> None:
        self.environment = environment
        self.denyut = denyut
        self.limit = limit
        self._folder = tempfile.TemporaryDirectory(prefix="denyut-")
        self._runs = 0

    def __enter__(self) -> Self:
        # A copy: a pass takes long, and what it tests must be one state of the package.
        shutil.copytree(
            ROOT / "denyut",
            Path(self._folder.name) / "site" / "denyut",
            ignore=shutil.ignore_patterns("__pycache__"),
        )
        return self

    def __exit__(self, *exc: object) -> None:
        self._folder.cleanup()

    def modules(self) -> list[str]:
        """Return the modules of the suite, as pytest takes them."""
        suite = self.environment.suite
        return [str(path.relative_to(suite)) for path in sorted(suite.glob("t/integration/test_*.py"))]

    def run(self, *what: str) -> ModuleReport:
        """Run a module, or single tests of it, in one pytest process with a server of its own."""
        self._runs += 1
        folder = Path(self._folder.name) / str(self._runs)
        folder.mkdir()
        server = PrivateValkey(folder)
        server.start()
        began = time.monotonic()
        try:
            self._pytest(what, folder, server)
            with server.client() as client:
                claims = count_claims(client)
        finally:
            server.kill()
        report = read_report(folder / "report.jsonl")
        report.seconds, report.claims = time.monotonic() - began, claims
        return report

    @property
    def output(self) -> Path:
        """What the last process printed."""
        return Path(self._folder.name) / str(self._runs) / "output.txt"

    def _pytest(self, what: Sequence[str], folder: Path, server: PrivateValkey) -> None:
        command = [
            str(self.environment.python),
            "-m",
            "pytest",
            "-p",
            "suite_reporter",
            "-p",
            "no:cacheprovider",
        ]
        command += ["-p", "celery.contrib.pytest", "-v", "--tb=short", "--timeout=300", *what]
        with self.output.open("wb") as output:
            process = subprocess.Popen(
                command,
                cwd=self.environment.suite,
                env=self._env(folder, server),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
            try:
                process.wait(self.limit)
            except subprocess.TimeoutExpired:
                process.kill()
            finally:
                # Its embedded worker has pool processes; one that is left would serve the next pass too.
                _kill_session(process.pid)
                process.wait()

    def _env(self, folder: Path, server: PrivateValkey) -> dict[str, str]:
        path = [str(PLUG), *([str(folder.parent / "site")] if self.denyut else [])]
        return {
            **{name: os.environ[name] for name in ("HOME", "LANG", "TZ") if name in os.environ},
            "PATH": f"{self.environment.python.parent}:{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(path),
            "PYTHONDONTWRITEBYTECODE": "1",
            "TEST_BROKER": server.url,
            "TEST_BACKEND": server.url,
            "REDIS_HOST": "127.0.0.1",
            "REDIS_PORT": str(server.port),
            "WORKER_LOGLEVEL": "INFO",
            "TMPDIR": str(folder),
            "DENYUT_EMBEDDED": "0",
            "DENYUT_REDIS_URL": server.url,  # some tests have a broker in memory
            "SUITE_WITH_DENYUT": "1" if self.denyut else "0",
            "SUITE_REPORT": str(folder / "report.jsonl"),
        }


def count_claims(client: Redis) -> int:
    """Return how many attempts were claimed, of every prefix: what the counters of all partitions say."""
    total = 0
    for key in client.scan_iter("*:counters", _type="hash"):
        total += _sum(value for name, value in client.hgetall(key).items() if name.startswith(b"claimed:"))
    return total


def _sum(values: Iterable[bytes]) -> int:
    return sum(int(value) for value in values)


def _kill_session(session: int) -> None:
    """Kill what is left of the session: the group of its leader, and groups made inside it."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
            if int(fields[3]) == session:
                os.kill(int(entry.name), signal.SIGKILL)
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended by itself
