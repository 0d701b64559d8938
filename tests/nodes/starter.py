"""A process that starts (or finds) the embedded server of a project, and can be killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from support import die_with_parent

# Says hello, waits for the word, does what ``how`` says, prints the server, and waits to be ended.
_SCRIPT = """
import json, os, signal, sys, threading
from denyut.embedded import ensure_server

def start():
    server = ensure_server()
    print(json.dumps([server.url, server.broker_url, server.pid, server.started_here, child]), flush=True)

how, child = sys.argv[1], 0
print("hello", flush=True)
sys.stdin.readline()
if how == "in a thread that ends":
    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
elif how == "then fork":
    ensure_server()
    child = os.fork()
    if not child:
        signal.pause()
    start()
else:
    start()
sys.stdin.readline()
"""


class Starter:
    """One process of a project. ``go`` starts the server; ``kill`` ends the process."""

    def __init__(self, project: Path, how: str = "", **env: str) -> None:
        environment = {**os.environ, **env}
        environment.pop("DENYUT_EMBEDDED", None)
        self.process = subprocess.Popen(
            [sys.executable, "-c", _SCRIPT, how],
            cwd=project,
            env=environment | env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=die_with_parent,
        )
        assert self._read() == "hello"

    def word(self) -> None:
        """Let it start the server."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """Return what ``ensure_server`` returned."""
        return dict(
            zip(("url", "broker_url", "pid", "started_here", "child"), json.loads(self._read()), strict=True)
        )

    def go(self) -> dict[str, Any]:
        """Let it start the server and return what it got."""
        self.word()
        return self.answer()

    def kill(self, number: int = signal.SIGKILL) -> None:
        """End the process with a signal."""
        self.process.send_signal(number)
        self.close()

    def leave(self) -> None:
        """Let the process end by itself."""
        self.word()
        self.close()

    def close(self) -> None:
        """Wait for the end of the process, killing it if it does not come."""
        try:
            self.process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()

    def _read(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            _, errors = self.process.communicate()
            raise AssertionError(f"the starter failed:\n{errors}")
        return line.strip()
