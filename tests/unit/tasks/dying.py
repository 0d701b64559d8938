"""A worker process that dies at any command it sends to Redis, simulated in the test's own process.

Whatever a process does in public is a command to Redis (broker, result backend and records are one
server here). So a test that dies before each of them has died everywhere: to die
right after one is to die before the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from celery.exceptions import WorkerTerminate
from redis.connection import AbstractConnection

#: What opens a connection changes nothing for anybody else.
_HANDSHAKE = (b"HELLO", b"CLIENT", b"SELECT", b"PING")


class DiedError(WorkerTerminate):  # type: ignore[misc]
    """The process is dead. (Of this kind, so that nobody takes it for an error of the task.)"""


@dataclass
class Life:
    """One process: how many commands it has sent, and when it is to die."""

    dies_at: int | None = None
    job: bool = True
    sent: int = 0
    dead: bool = False
    commands: list[str] = field(default_factory=list)


@contextmanager
def living(life: Life) -> Iterator[Life]:
    """Let what is inside the ``with`` block be the process ``life``."""
    send = AbstractConnection.send_packed_command

    def sending(self: Any, command: Any, **options: Any) -> Any:
        if life.dead:
            raise DiedError
        words = b"".join(part if isinstance(part, bytes) else part.encode() for part in command)[:300]
        if any(word in words for word in _HANDSHAKE):
            return send(self, command, **options)
        life.sent += 1
        life.commands.append(words.decode("utf-8", "replace"))
        if life.sent != life.dies_at:
            return send(self, command, **options)
        life.dead = True
        raise DiedError

    AbstractConnection.send_packed_command = sending
    try:
        yield life
    finally:
        AbstractConnection.send_packed_command = send
