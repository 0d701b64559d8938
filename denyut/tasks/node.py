"""Who this worker is: the owner that is written into leases and records."""

from __future__ import annotations

import os
from dataclasses import dataclass
from secrets import token_hex
from socket import gethostname

__all__ = ["Node", "current_node", "new_node"]

_NAME_BYTES = 200

_current: Node | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """One start of one worker. Its pool children, which are forked, have the same node.

    ``name``: the worker's node name, such as ``celery@host``. ``boot``: random, so that a worker
    started again under the same name is somebody else. ``pid``: of its main process.
    """

    name: str
    boot: str
    pid: int

    @property
    def owner(self) -> str:
        """The owner part of a lease: ``NAME|BOOT``, without ``#``, 255 bytes at most."""
        return f"{self.name}|{self.boot}"


def new_node(hostname: str) -> Node:
    """Give this process a new identity and return it; processes forked from here on inherit it.

    Args:
        hostname: the worker's node name. A ``#``, which ends the owner in a lease, becomes ``_``.
    """
    global _current  # noqa: PLW0603 - one identity per process is what this module is for
    name = hostname.replace("#", "_").encode()[:_NAME_BYTES].decode("utf-8", "ignore")
    _current = Node(name, token_hex(6), os.getpid())
    return _current


def current_node() -> Node:
    """Return the identity of the worker that this process belongs to.

    A process that is no worker gets one of its own, named after its pid and host.
    """
    return _current or new_node(f"{os.getpid()}@{gethostname()}")
