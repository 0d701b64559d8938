"""The worker's side of a heartbeat that is a process of its own (see :mod:`denyut.signals.beat_process`).

It has the methods of :class:`denyut.signals.heartbeat.Heartbeat`. A thread tells the process what the
worker has in hand, hears what has become of its jobs, and starts it again if it ends.
"""

from __future__ import annotations

import logging
import os
import selectors
import signal
import socket
import sys
from collections import deque
from contextlib import closing, suppress
from dataclasses import asdict
from itertools import count
from threading import Condition, Event
from time import monotonic
from typing import TYPE_CHECKING, Any

from denyut.service import Service
from denyut.signals.lines import Lines, line
from denyut.signals.wake import Wake
from denyut.tasks.slots import SlotState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from denyut.config import Settings
    from denyut.store import Store
    from denyut.tasks.held import InHand
    from denyut.tasks.node import Node
    from denyut.tasks.slots import SlotBlock

__all__ = ["RemoteHeartbeat"]

logger = logging.getLogger(__name__)

#: It must take any descriptor, as select() does not, and keep nothing in the kernel that forked children
#: share, as epoll does. Where eventlet has patched it away there are no such children.
_SELECTOR: Any = getattr(selectors, "PollSelector", selectors.DefaultSelector)
#: How often the process is told what the worker has in hand; as often as Heartbeat looks (s).
_TELL_AFTER = 0.25
#: A process that ends so soon after its start is not started again at once (s).
_SOON = 1.0
#: How long to wait until Redis knows which job is about to be ended (s).
_TELL_WITHIN = 1.0
#: How long the process may take to sign off (s).
_END_WITHIN = 3.0


class RemoteHeartbeat(Service):
    """The heartbeat of one worker, in a process of its own. Arguments as of ``Heartbeat``."""

    thread_name = "denyut-heartbeat"

    def __init__(
        self,
        settings: Settings,
        store: Store,
        block: SlotBlock,
        *,
        node: Node,
        held: InHand,
        wake: Wake,
        on_death: Callable[[SlotState], None],
        about: Mapping[str, str] | None = None,
        revive: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__()
        self._settings, self._store, self._block = settings, store, block
        self._node, self._held, self._wake = node, held, wake
        self._on_death, self._revive = on_death, revive
        self._about = dict(about or {})
        self._poke = Wake()
        self._out: deque[dict[str, Any]] = deque()
        self._numbers = count(1)
        self._drained = 0
        self._changed = Condition()
        self.draining = False
        self.beats = 0  # completed ones
        self.completed = Event()  # set when one is heard of; tests clear it and wait
        self.lag = 0.0  # seconds that the last one was late
        self.pid = 0  # of the process; 0: there is none now
        self._socket: socket.socket | None = None  # to a process that nobody follows yet
        self._told: set[str] = set()  # messages in hand that the process knows of

    def hurry(self) -> None:
        """Beat now: a record has something to say to this worker. From any thread."""
        self._say({"do": "hurry"})

    def interrupt(self) -> None:
        """End a wait of the thread."""
        self._poke.set()

    def drain(self, job_id: str) -> None:
        """Tell Redis that the worker ends the running job ``job_id`` on purpose; see ``Heartbeat.drain``."""
        number = next(self._numbers)
        self._say({"do": "drain", "job": job_id, "number": number})
        with self._changed:
            self._changed.wait_for(lambda: self._drained >= number, _TELL_WITHIN)

    def drain_all(self) -> None:
        """The same for all jobs, also those to come: the worker ends. Does not wait, and takes no lock."""
        self.draining = True
        self._say({"do": "drain_all"})

    def run(self) -> None:
        """Keep a process until it is asked to stop."""
        while not self.stopping.is_set():
            began = monotonic()
            with closing(self._socket or self._connect()) as ours:
                try:
                    self._follow(ours)
                except OSError as exc:
                    logger.info("heartbeat process: %s", exc)
                self._socket = None
                status = self._reap()
            if not self.stopping.is_set():
                logger.error("the heartbeat process has ended (%s); it is started again", status)
                if monotonic() - began < _SOON:
                    self.stopping.wait(_SOON)

    def _begin(self) -> None:
        # Here, and not in the thread: a first job that does not give way would not let that begin.
        self._socket = self._connect()
        super()._begin()

    def _connect(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        with closing(theirs):
            self.pid = self._spawn(theirs)
        ours.sendall(line(self._hello()))
        return ours

    def _say(self, message: dict[str, Any]) -> None:
        self._out.append(message)
        self._poke.set()

    def _spawn(self, theirs: socket.socket) -> int:
        """Start the process. Spawned: a fork of this one would have its threads' locks and its sockets."""
        # With the same path: what this process can import, however it has found it, that one must too.
        code = (
            f"import sys; sys.path[:] = {sys.path!r}; from denyut.signals.beat_process import main; main(3)"
        )
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            *((os.POSIX_SPAWN_DUP2, fd, 100 + place) for place, fd in enumerate(self._fds(theirs))),
            *((os.POSIX_SPAWN_DUP2, 100 + place, 3 + place) for place in range(3)),
            *((os.POSIX_SPAWN_CLOSE, 100 + place) for place in range(3)),
        ]
        pid = os.posix_spawn(sys.executable, [sys.executable, "-c", code], os.environ, file_actions=actions)
        self._told = set()
        return pid

    def _fds(self, theirs: socket.socket) -> tuple[int, int, int]:
        return theirs.fileno(), self._block.fd, self._wake.fd

    def _hello(self) -> dict[str, Any]:
        node = self._node
        return {
            "settings": asdict(self._settings),
            "url": self._store.url,
            "node": [node.name, node.boot, node.pid],
            "block": 4,
            "wake": 5,
            "about": self._about,
            "level": logging.getLogger("denyut").getEffectiveLevel(),
        }

    def _follow(self, ours: socket.socket) -> None:
        """Talk to the process until it, or this service, ends."""
        lines = Lines(ours)
        if self.draining:
            self._out.append({"do": "drain_all"})
        with _SELECTOR() as selector:
            selector.register(ours, selectors.EVENT_READ)
            selector.register(self._poke.fd, selectors.EVENT_READ)
            while lines.open and not self.stopping.is_set():
                self._tell_held()
                while self._out:
                    ours.sendall(line(self._out.popleft()))
                ready = selector.select(_TELL_AFTER)
                self._poke.clear()
                if any(key.fileobj is ours for key, _ in ready):
                    for message in lines.read():
                        self._hear(message)
        if lines.open:
            ours.sendall(line({"do": "stop"}))

    def _tell_held(self) -> None:
        in_hand = set(self._held.snapshot_older_than(_TELL_AFTER))
        come, gone = in_hand - self._told, self._told - in_hand
        if come or gone:
            self._out.append({"do": "held", "come": [*come], "gone": [*gone], "ago": _TELL_AFTER})
            self._told = in_hand

    def _hear(self, message: dict[str, Any]) -> None:
        what = message["is"]
        if what == "beat":
            self.lag = message["lag"]
            self.beats += 1
            self.completed.set()
            self._revive()
        elif what == "death":
            self._on_death(SlotState(**message["job"]))
        elif what == "drained":
            with self._changed:
                self._drained = message["number"]
                self._changed.notify_all()
        elif what == "log":
            logging.getLogger(message["name"]).log(message["level"], "%s", message["text"])

    def _reap(self) -> str:
        """Wait for the end of the process, and see to it; return how it ended, in words."""
        pid, self.pid = self.pid, 0
        deadline = monotonic() + (_END_WITHIN if self.stopping.is_set() else 0.0)
        while True:
            try:
                done, status = os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                return "somebody else has waited for it"
            if done:
                code = os.waitstatus_to_exitcode(status)
                return f"signal {-code}" if code < 0 else f"exit status {code}"
            if monotonic() >= deadline:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            Event().wait(0.01)
