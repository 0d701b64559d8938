"""Processes that take one lock are killed and stopped at random; a judge outside sees who is inside.

Whoever is inside has a connection to the judge, which the kernel closes when he dies. So two open
connections are two holders; the only excuse is that the older one was stopped past his TTL.
"""

from __future__ import annotations

import os
import random
import selectors
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import pytest
from support import die_with_parent

SECONDS = 20.0
PROCESSES = 3
TTL = 1.5  # longer than a busy machine keeps a process waiting


class Judge:
    """Hears who is inside, and with which fence."""

    def __init__(self, path: Path) -> None:
        self.door = socket.socket(socket.AF_UNIX)
        self.door.bind(str(path))
        self.door.listen()
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.door, selectors.EVENT_READ)
        self.inside: dict[socket.socket, tuple[int, int]] = {}  # connection -> pid, fence
        self.stopped: set[int] = set()  # pids that were stopped since they came in
        self.fences: list[int] = []
        self.late: set[int] = set()  # fences with which somebody worked after a higher one had come in
        self.overlaps = 0
        self.wrong: list[str] = []

    def listen(self, seconds: float) -> None:
        """Hear what is said for so long."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            ready = [key.fileobj for key, _ in self.selector.select(left)]
            # Ends first: a connection that the kernel has closed is nobody inside.
            for connection in sorted(ready, key=lambda each: each is self.door):
                if connection is self.door:
                    self.selector.register(self.door.accept()[0], selectors.EVENT_READ)
                else:
                    self._hear(connection)

    def _hear(self, connection: socket.socket) -> None:
        try:
            line = connection.recv(100).decode().strip()
        except ConnectionResetError:
            line = ""
        if line in ("", "out"):
            pid, _ = self.inside.pop(connection, (0, 0))
            self.stopped.discard(pid)
            if line:
                _answer(connection)
            self.selector.unregister(connection)
            connection.close()
            return
        pid, fence = map(int, line.split())
        if connection not in self.inside:
            self._enter(pid, fence)
            self.inside[connection] = (pid, fence)
        elif fence < self.fences[-1] and (pid not in self.stopped or fence in self.late):
            # One who was stopped between his check and what he said may say that; the next check tells him.
            self.wrong.append(f"{pid} works with fence {fence} after {self.fences[-1]}")
        elif fence < self.fences[-1]:
            self.late.add(fence)
        _answer(connection)

    def _enter(self, pid: int, fence: int) -> None:
        for other, older in self.inside.values():
            self.overlaps += 1
            if other not in self.stopped:
                self.wrong.append(f"{pid} (fence {fence}) came in while {other} (fence {older}) was inside")
        if self.fences and fence <= self.fences[-1] and pid not in self.stopped:
            self.wrong.append(f"fence {fence} after {self.fences[-1]}")
        self.fences.append(max([fence, *self.fences[-1:]]))


def _answer(connection: socket.socket) -> None:
    with suppress(BrokenPipeError):  # he was killed right after he had spoken: the next look sees him gone
        connection.sendall(b".")


@pytest.fixture
def judge(tmp_path):
    judge = Judge(tmp_path / "judge")
    yield judge
    for key in list(judge.selector.get_map().values()):
        key.fileobj.close()
    judge.selector.close()


@pytest.mark.slow
def test_whoever_is_killed_or_stopped_no_two_are_inside_and_fences_grow(
    valkey_server, valkey, tmp_path, judge
):
    dice, prefix, running, kills = random.Random(1), f"t{uuid4().hex[:8]}", [], 0

    def start():
        program = [sys.executable, str(Path(__file__).parent / "contender.py")]
        command = [*program, valkey_server.url, prefix, str(TTL), str(tmp_path / "judge")]
        running.append(
            subprocess.Popen(command, preexec_fn=die_with_parent, stdout=(tmp_path / "out").open("a"))
        )

    for _ in range(PROCESSES):
        start()
    end = time.monotonic() + SECONDS
    while (now := time.monotonic()) < end or (judge.overlaps < 2 and now < end + 60):
        judge.listen(dice.uniform(0.1, 0.6))
        # Mostly he who is inside; else whoever waits, or is on his way.
        inside = [each for each in running for pid, _ in judge.inside.values() if each.pid == pid]
        victim = dice.choice(inside if inside and dice.random() < 0.8 else running)
        if dice.random() < 0.5:
            victim.kill()
            victim.wait()
            running.remove(victim)
            kills += 1
            start()
        else:
            pause = dice.choice([0.1, 2 * TTL, 2 * TTL])
            if pause > TTL:
                judge.stopped.add(victim.pid)
            os.kill(victim.pid, signal.SIGSTOP)
            judge.listen(pause)
            os.kill(victim.pid, signal.SIGCONT)
    for each in running:
        each.kill()
        each.wait()
    assert judge.wrong == []
    assert len(set(judge.fences)) > 50
    assert judge.overlaps >= 2, "somebody was stopped inside, and another came in"
    assert kills > 2
