"""Where an embedded server lives: the folder ``.denyut`` of a project, one for all its processes."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import stat
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from denyut.errors import EmbeddedUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Folder", "project_folder"]

_MARKERS = ("pyproject.toml", "setup.py", "manage.py", ".git")
# The kernel takes 107 bytes and a NUL; a few are left for the suffixes that servers append.
_LONGEST_SOCKET_PATH = 100
_LOCK_POLL = 0.02


def project_folder(start: Path | None = None) -> Path:
    """Return the nearest folder at or above ``start`` (default: the current one) that is a project's.

    A project's folder has a ``pyproject.toml``, ``setup.py``, ``manage.py`` or ``.git``. Without one
    it is ``start`` itself.
    """
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if any((folder / marker).exists() for marker in _MARKERS):
            return folder
    return here


@dataclass(frozen=True, slots=True)
class Folder:
    """The files of the embedded server of one project. Private to the user (mode 700)."""

    path: Path

    @classmethod
    def of(cls, project: Path) -> Folder:
        """Return the folder of ``project``, made if it is not there yet.

        Raises:
            OSError: if it cannot be made.
        """
        path = project / ".denyut"
        path.mkdir(mode=0o700, exist_ok=True)
        ignore = path / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n", encoding="utf-8")
        (path / "data").mkdir(mode=0o700, exist_ok=True)
        return cls(path)

    @property
    def data(self) -> Path:
        """The server's append-only file."""
        return self.path / "data"

    @property
    def log(self) -> Path:
        """The server's log since its last start."""
        return self.path / "valkey.log"

    @property
    def state(self) -> Path:
        """JSON with ``pid`` and ``socket`` of the running server."""
        return self.path / "server.json"

    @property
    def running(self) -> Path:
        """Locked for as long as a server uses ``data``, whatever the state file says."""
        return self.path / "running.lock"

    def read_state(self) -> tuple[int, str] | None:
        """Return pid and socket of the last server that was started; None if nothing tells."""
        try:
            state = json.loads(self.state.read_text(encoding="utf-8"))
            return int(state["pid"]), str(state["socket"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def is_in_use(self) -> bool:
        """Return whether a server, or its supervisor, is alive on ``data``.

        The kernel answers: a lock ends with its holders, so neither a stale state file nor a pid
        that now belongs to somebody else can mislead.
        """
        descriptor = os.open(self.running, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            in_use = not _try_lock(descriptor)
            if not in_use:  # by word, not by closing alone: a child forked meanwhile has the descriptor too
                fcntl.flock(descriptor, fcntl.LOCK_UN)
        finally:
            os.close(descriptor)
        return in_use

    @contextmanager
    def locked(self, timeout: float) -> Iterator[None]:
        """Hold the folder's start lock: of processes that start at one instant, one goes first.

        Raises:
            EmbeddedUnavailable: if somebody else holds it for ``timeout`` seconds.
        """
        path = self.path / "start.lock"
        deadline = time.monotonic() + timeout
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            while not _try_lock(descriptor):
                if time.monotonic() > deadline:
                    raise EmbeddedUnavailable(
                        f"another process has been starting the embedded server for {timeout:g} s "
                        f"(it holds {path}); look at {self.log}"
                    )
                time.sleep(_LOCK_POLL)
            yield
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)

    def socket(self) -> Path:
        """Return the path of the server's unix socket: in the folder, if a socket can be there.

        A long path, or a file system without sockets, makes it a short one in the user's private
        folder for temporary files, keyed by a hash of the project's.
        """
        path = self.path / "valkey.sock"
        if len(os.fsencode(path)) <= _LONGEST_SOCKET_PATH and _can_hold_socket(self.path):
            return path
        return _private_temporary() / f"{sha256(os.fsencode(self.path)).hexdigest()[:16]}.sock"


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _can_hold_socket(folder: Path) -> bool:
    probe = folder / f"p{os.getpid()}"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.bind(str(probe))
    except OSError:
        return False
    probe.unlink()
    return True


def _private_temporary() -> Path:
    name = f"denyut-{os.geteuid()}"
    folder = Path(tempfile.gettempdir()) / name
    if len(os.fsencode(folder)) > _LONGEST_SOCKET_PATH - 22:  # "/", 16 digits, ".sock"
        folder = Path("/tmp") / name  # noqa: S108 - checked below: a folder of ours alone
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise EmbeddedUnavailable(
            f"{folder} must be a folder that only you can enter (owner {os.geteuid()}, mode 700), "
            "because the embedded server's socket goes there; remove it or set TMPDIR"
        )
    return folder
