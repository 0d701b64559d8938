"""The processes of the demo: started, watched, killed on purpose, and all stopped at the end."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Self
from urllib.error import URLError
from urllib.request import urlopen

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

_PR_SET_PDEATHSIG = 1
_TAIL = 25
_LIBC = ctypes.CDLL(None)


class StageError(Exception):
    """A part of the demo failed; the message has the end of its log."""


class Part:
    """One process and its log. With ``talk`` it can be spoken to through ``process.stdin`` and ``stdout``."""

    def __init__(
        self, name: str, command: Sequence[str], folder: Path, env: Mapping[str, str], *, talk: bool
    ) -> None:
        self.name = name
        self.command = command
        self.log = folder / f"{name}.log"
        self.expected = not talk  # to be running; who is spoken to ends when it has answered
        pipe = subprocess.PIPE if talk else None
        with self.log.open("ab") as log:
            self.log_start = log.tell()  # after those of its predecessors of the same name
            self.process = subprocess.Popen(
                command,
                cwd=folder,
                env=env,
                stdin=pipe or subprocess.DEVNULL,
                stdout=pipe or log,
                stderr=log,
                text=True,
                start_new_session=True,  # Ctrl-C is for the demo, which then stops everybody in order
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - the demo has one thread
            )

    def said(self, words: str) -> bool:
        """Return whether ``words`` are in its log."""
        with self.log.open("rb") as log:
            log.seek(self.log_start)
            return words.encode() in log.read()

    def failure(self, what: str) -> StageError:
        """Return the error that says ``what`` went wrong with it, with the end of its log."""
        tail = "\n".join(
            f"    {line}" for line in self.log.read_text("utf-8", "replace").splitlines()[-_TAIL:]
        )
        return StageError(f"{self.name} {what}; the end of its log:\n{tail or '    (empty)'}")


class Stage:
    """Starts parts and stops all of them when the ``with`` block ends, however it ends.

    Args:
        folder: their working directory, with their logs.
        env: their environment.
    """

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self.folder = folder
        self._env = env
        self._interrupted = False
        self.parts: list[Part] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, name: str, command: Sequence[str], *, talk: bool = False) -> Part:
        """Start a process. It is expected to run until the end, or until :meth:`kill`."""
        part = Part(name, command, self.folder, self._env, talk=talk)
        self.parts.append(part)
        return part

    def wait(self, part: Part, ready: Callable[[], bool], timeout: float) -> None:
        """Wait until ``ready()``. Raises StageError if that takes too long, or if a part ends."""
        deadline = time.monotonic() + timeout
        while not ready():
            self.check()
            if time.monotonic() > deadline:
                raise part.failure(f"was not ready after {timeout:g} s")
            time.sleep(0.05)

    def interrupt(self, *_: object) -> None:
        """Handle a signal: end as Ctrl-C does."""
        self._interrupted = True  # what is raised here is lost if Python is just starting a process
        raise KeyboardInterrupt

    def check(self) -> None:
        """Raise StageError if a part has ended that should be running, KeyboardInterrupt if it is time to."""
        if self._interrupted:
            raise KeyboardInterrupt
        for part in self.parts:
            if part.expected and part.process.poll() is not None:
                raise part.failure(f"ended by itself (exit code {part.process.returncode})")

    def kill(self, part: Part) -> None:
        """SIGKILL the main process of ``part``, and only that: what becomes of its children is its affair."""
        part.expected = False
        part.process.kill()
        part.process.wait()

    def stop(self, patience: float = 8.0) -> None:
        """End everything: SIGTERM to each, SIGKILL for what is left after ``patience`` seconds."""
        for part in self.parts:
            part.expected = False
            part.process.terminate()
        deadline = time.monotonic() + patience
        for part in self.parts:
            with suppress(subprocess.TimeoutExpired):
                part.process.wait(max(deadline - time.monotonic(), 0.0))
        for part in self.parts:
            if part.process.poll() is None:
                os.killpg(part.process.pid, signal.SIGKILL)  # its children, too
                part.process.wait()


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody listens on."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def answers(url: str) -> bool:
    """Return whether an HTTP server answers at ``url``."""
    try:
        with urlopen(url, timeout=2.0) as response:
            return bool(response.status == 200)
    except (URLError, OSError):
        return False


def _die_with_parent() -> None:
    """Have the kernel end this process if the demo is killed itself, so that nothing is left behind."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
