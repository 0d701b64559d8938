"""The process between an embedded server and its starter: it ends the server when the starter ends.

Run as a script with the standard library alone (``python -I -S embedded_supervisor.py PLAN``), so
that it costs a few megabytes and nothing of the application. PLAN is JSON:

=============  ====================================================================
``argv``       the server's command
``socket``     the unix socket the server listens on
``state``      file that says where the server is, written when it answers
``running``    file that is locked for as long as the supervisor or the server lives
``log``        file that the starter has made our, and so the server's, output
``starter``    file descriptor: a pidfd of the starter
``ready``      file descriptor: gets ``ok`` or what went wrong, and a NUL
``timeout``    seconds the server has to answer
=============  ====================================================================

The starter is watched through a pidfd, which nothing forked from it can keep alive. The server gets
PDEATHSIG from this process, which has one thread only, so that the signal means what it says.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time

_PR_SET_PDEATHSIG = 1
_STOP_TIMEOUT = 10.0
_PROCESS_ID = re.compile(rb"process_id:(\d+)\r\n")


def server_pid(path: str, timeout: float = 2.0) -> int | None:
    """Return the pid of the server that answers PING on the unix socket ``path``, None if none does."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(timeout)
            sock.connect(path)
            sock.sendall(b"PING\r\nINFO server\r\n")
            reply = b""
            while not (found := _PROCESS_ID.search(reply)):
                chunk = sock.recv(65536)
                reply += chunk
                if not chunk or not reply.startswith(b"+PONG"[: len(reply)]):
                    return None
            return int(found.group(1))
    except OSError:
        return None


class NotStarted(Exception):
    """Why there is no server; the text goes to the starter."""


class Supervisor:
    """Starts one server, waits for its end or the starter's, and leaves nothing behind."""

    def __init__(self, plan: dict[str, object]) -> None:
        self.argv = list(map(str, plan["argv"]))  # type: ignore[call-overload]  # JSON, written by us
        self.socket = str(plan["socket"])
        self.state = str(plan["state"])
        self.log = str(plan["log"])
        self.starter = int(str(plan["starter"]))
        self.timeout = float(str(plan["timeout"]))
        self.running = os.open(str(plan["running"]), os.O_RDWR | os.O_CREAT, 0o600)
        self.server: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the server and write the state file when it answers."""
        try:
            fcntl.flock(self.running, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise NotStarted(f"another server is using this folder ({error})") from None
        me = os.getpid()
        # The lock is handed on: it is free only when the server, too, is gone.
        self.server = subprocess.Popen(  # noqa: S603 - our own command
            self.argv,
            pass_fds=[self.running],
            preexec_fn=lambda: _die_with(me),  # noqa: PLW1509 - this process has one thread
        )
        self._wait_ready()
        temporary = f"{self.state}.new"
        with open(temporary, "w", encoding="utf-8") as file:  # noqa: PTH123 - pathlib doubles our start
            json.dump({"pid": self.server.pid, "socket": self.socket, "supervisor": me}, file)
        os.replace(temporary, self.state)  # noqa: PTH105 - as above

    def watch(self) -> None:
        """Return when the starter or the server has ended. SIGTERM raises SystemExit here."""
        assert self.server is not None
        # A signal that comes just before poll() would be noticed only after it: the pipe wakes it.
        wakeup, signalled = os.pipe()
        os.set_blocking(signalled, False)
        signal.set_wakeup_fd(signalled)
        poll = select.poll()
        poll.register(wakeup, select.POLLIN)
        poll.register(self.starter, select.POLLIN)
        poll.register(os.pidfd_open(self.server.pid), select.POLLIN)
        poll.poll()

    def stop(self) -> None:
        """End the server in an orderly way: what it knows is on disk."""
        if self.server is None:
            return
        _unlink(self.state)
        self.server.terminate()
        try:
            self.server.wait(_STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.server.kill()
            self.server.wait()
        _unlink(self.socket)

    def _wait_ready(self) -> None:
        assert self.server is not None
        deadline = time.monotonic() + self.timeout
        starter = select.poll()
        starter.register(self.starter, select.POLLIN)
        while server_pid(self.socket) != self.server.pid:
            if self.server.poll() is not None:
                raise NotStarted(f"it ended with exit code {self.server.returncode}:\n{self._log_tail()}")
            if time.monotonic() > deadline:
                raise NotStarted(f"it did not answer within {self.timeout:g} s:\n{self._log_tail()}")
            if starter.poll(10):
                raise NotStarted("its starter has ended")

    def _log_tail(self) -> str:
        with open(self.log, encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - as above
            return file.read()[-2000:]


def _die_with(parent: int) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:  # it ended before the line above
        os._exit(1)


def _unlink(path: str) -> None:
    if os.path.exists(path):  # noqa: PTH110 - as above
        os.unlink(path)  # noqa: PTH108 - as above


def _end(*_: object) -> None:
    raise SystemExit(0)


def main(argument: str) -> None:
    """Supervise one server; returns (in a child of its own) when it is gone."""
    plan = json.loads(argument)
    ready = int(plan["ready"])
    if os.fork():
        os._exit(0)  # the starter waits for this one; the one that stays is no child of the starter's
    os.umask(0o077)
    signal.signal(signal.SIGTERM, _end)
    supervisor = Supervisor(plan)
    try:
        try:
            supervisor.start()
        except (OSError, NotStarted) as error:
            os.write(ready, f"{error}\0".encode())
            raise SystemExit(1) from None
        os.write(ready, b"ok\0")
        os.close(ready)
        supervisor.watch()
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        supervisor.stop()


if __name__ == "__main__":
    main(sys.argv[1])
