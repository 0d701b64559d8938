"""Messages between a worker's main process and its heartbeat process: one line of JSON each."""

from __future__ import annotations

import json
from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from socket import socket

__all__ = ["Lines", "line"]

_CHUNK = 65_536


def line(message: dict[str, Any]) -> bytes:
    """Return ``message`` as it goes over the socket."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


class Lines:
    """The receiving end. Used by one thread.

    Args:
        connection: a stream socket, blocking or not.
    """

    def __init__(self, connection: socket) -> None:
        self._connection = connection
        self._rest = b""
        self._waiting: deque[dict[str, Any]] = deque()
        self.open = True  # until the other side has ended

    def first(self) -> dict[str, Any] | None:
        """Wait for one message and return it; None if the other side has ended."""
        while self.open and not self._waiting:
            self._receive()
        return self._waiting.popleft() if self._waiting else None

    def read(self) -> Iterator[dict[str, Any]]:
        """Read once and yield the messages that are complete by that; none if nothing is there."""
        self._receive()
        return self.taken()

    def taken(self) -> Iterator[dict[str, Any]]:
        """Yield what came together with the :meth:`first` message."""
        while self._waiting:
            yield self._waiting.popleft()

    def _receive(self) -> None:
        try:
            data = self._connection.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.open = False
            return
        *whole, self._rest = (self._rest + data).split(b"\n")
        self._waiting.extend(map(json.loads, whole))
