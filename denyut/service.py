"""A service: a daemon thread that is started once, stopped, and may be started again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from threading import Event, Lock, Thread

__all__ = ["Service"]


class Service(ABC):
    """The base of heartbeat, handover and recovery.

    ``thread_name`` names the thread; ``stopping`` is set while it is asked to stop.
    """

    thread_name: str

    def __init__(self) -> None:
        self.stopping = Event()
        self._thread: Thread | None = None
        self._reviving = Lock()

    def start(self) -> None:
        """Start the thread. A second call does nothing."""
        if self._thread is None:
            self.stopping.clear()
            self._thread = Thread(target=self.run, name=self.thread_name, daemon=True)
            self._thread.start()

    def revive(self) -> bool:
        """Start the thread again if it has died without being asked to stop; return whether it had."""
        with self._reviving:
            thread = self._thread
            if thread is None or thread.is_alive() or self.stopping.is_set():
                return False
            self._thread = None
            self.start()
            return True

    def stop(self, timeout: float = 5.0) -> None:
        """Ask the thread to stop and wait for it, at most ``timeout`` seconds."""
        if self._thread is not None:
            self.stopping.set()
            self.interrupt()
            self._thread.join(timeout)
            self._thread = None

    @abstractmethod
    def run(self) -> None:
        """Work until ``stopping`` is set."""

    @abstractmethod
    def interrupt(self) -> None:
        """End a wait of :meth:`run` at once. Called from another thread."""
