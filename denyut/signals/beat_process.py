"""The heartbeat as a process of its own, for pools whose bodies run in the worker's main process.

There a body that holds the GIL for long (one C call), or a greenlet that does not give way, would
starve a thread, and a healthy job would lose its lease. This process shares nothing with the worker
but its slots, which it reads, and a socket. It is spawned, not forked: it has neither the worker's
threads nor its connections. It imports neither Celery nor SQLAlchemy, and takes about 32 MiB.

It ends when the worker's main process does, however that ends: then nobody renews its leases.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from contextlib import suppress
from dataclasses import asdict
from queue import SimpleQueue
from selectors import EVENT_READ, DefaultSelector
from socket import socket
from threading import Thread
from time import monotonic
from typing import TYPE_CHECKING, Any

from denyut.config import Settings
from denyut.keys import Keys
from denyut.signals.heartbeat import Heartbeat
from denyut.signals.lines import Lines, line
from denyut.signals.wake import Wake
from denyut.store import Store
from denyut.tasks.node import Node
from denyut.tasks.slots import SlotBlock

if TYPE_CHECKING:
    from collections.abc import Iterable

    from denyut.tasks.slots import SlotState

__all__ = ["BeatProcess", "main"]

#: Signals that are meant for the worker, or for all processes of a terminal: jobs may have to end yet.
_NOT_MEANT = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
#: How often it is looked whether the worker lives, where its end cannot be waited for (s).
_LOOK_EVERY = 1.0
#: Most messages that wait for a worker that does not read; what comes then is dropped.
_MOST_WAITING = 10_000


class ToldHeld:
    """The messages that the worker has in hand, as it has told."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    def change(self, come: Iterable[str], gone: Iterable[str], now: float) -> None:
        """Take messages in (since ``now``) and out."""
        since = dict(self._since)  # another thread reads the old one
        since.update(dict.fromkeys(come, now))
        for job_id in gone:
            since.pop(job_id, None)
        self._since = since

    def snapshot_older_than(self, seconds: float) -> list[str]:
        """Return the ids that have been in hand for ``seconds`` or longer."""
        latest = monotonic() - seconds
        return [job_id for job_id, since in self._since.items() if since <= latest]


class BeatProcess:
    """What runs in the process: a heartbeat, and a thread for each direction of the socket.

    Args:
        connection: to the worker's main process.
        about: what the worker has said first: settings, url, node, block, wake, about.
    """

    def __init__(self, connection: socket, about: dict[str, Any]) -> None:
        settings = Settings.build(about["settings"])
        self._connection = connection
        self._out: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self.node = Node(*about["node"])
        self.held = ToldHeld()
        self.wake = Wake(about["wake"])
        self.heartbeat = Heartbeat(
            settings,
            Keys.of(settings),
            Store(lambda: str(about["url"]), timeout=settings.redis_timeout),
            SlotBlock(about["block"]),
            node=self.node,
            held=self.held,
            wake=self.wake,
            on_death=self._on_death,
            about=about["about"],
            revive=self._on_beat,
        )

    def run(self, lines: Lines) -> None:
        """Work until the worker says that it is enough, or has ended."""
        Thread(target=self._send, name="denyut-send", daemon=True).start()
        self.heartbeat.start()
        with DefaultSelector() as selector:
            selector.register(self._connection, EVENT_READ)
            watched = self._watch_worker(selector)
            enough = any(map(self._obey, lines.taken()))
            while lines.open and not enough:
                ready = selector.select(None if watched else _LOOK_EVERY)
                if any(key.data == "worker" for key, _ in ready) or os.getppid() != self.node.pid:
                    return  # without signing off: its jobs are to be found
                enough = bool(ready) and any(map(self._obey, lines.read()))
        if enough:
            self.heartbeat.stop()

    def tell(self, message: dict[str, Any]) -> None:
        """Send ``message`` to the worker; never blocks."""
        if self._out.qsize() < _MOST_WAITING:
            self._out.put(message)

    def _obey(self, message: dict[str, Any]) -> bool:
        """Do what the worker says; True if that is to end."""
        what = message["do"]
        if what == "held":
            self.held.change(message["come"], message["gone"], monotonic() - message["ago"])
        elif what == "hurry":
            self.heartbeat.hurry()
        elif what == "drain":
            self.heartbeat.drain(message["job"])
            self.tell({"is": "drained", "number": message["number"]})
        elif what == "drain_all":
            self.heartbeat.drain_all()
        return bool(what == "stop")

    def _watch_worker(self, selector: DefaultSelector) -> bool:
        try:
            fd = os.pidfd_open(self.node.pid)
        except (OSError, AttributeError):
            return False
        selector.register(fd, EVENT_READ, "worker")
        return True

    def _on_beat(self) -> None:
        self.tell({"is": "beat", "lag": self.heartbeat.lag})

    def _on_death(self, job: SlotState) -> None:
        self.tell({"is": "death", "job": asdict(job)})

    def _send(self) -> None:
        with suppress(OSError):  # the worker has ended
            while True:
                self._connection.sendall(line(self._out.get()))


class _Forwarded(logging.Handler):
    """What is logged here is logged by the worker, as it was set up there."""

    def __init__(self, process: BeatProcess) -> None:
        super().__init__()
        self._process = process

    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record)
        self._process.tell({"is": "log", "level": record.levelno, "name": record.name, "text": text})


def main(fd: int) -> None:
    """Be the heartbeat process of the worker at the other end of the socket ``fd``."""
    for number in _NOT_MEANT:
        signal.signal(number, signal.SIG_IGN)
    connection = socket(fileno=fd)
    lines = Lines(connection)
    first = lines.first()
    if first is None:
        sys.exit("the worker ended before it had said anything")
    process = BeatProcess(connection, first)
    logger = logging.getLogger("denyut")
    logger.setLevel(first["level"])
    logger.addHandler(_Forwarded(process))
    process.run(lines)
