"""A service: a daemon thread that is started once, stopped, and may be started again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from threading import Event, RLock, Thread

__all__ = ["Service"]


class Service(ABC):
    """The base of heartbeat, handover and recovery.

    ``thread_name`` names the thread; ``stopping`` is set while it is asked to stop.
    """

    thread_name: str

    def __init__(self) -> None:
        self.stopping = Event()
        self._thread: Thread | None = None
        self._lock = RLock()

    def start(self) -> None:
        """Start the thread. A second call does nothing."""
        with self._lock:
            if self._thread is None:
                self.stopping.clear()
                self._begin()

    def revive(self) -> bool:
        """Start the thread again if it has died without being asked to stop; return whether it had."""
        with self._lock:
            thread = self._thread
            if thread is None or thread.is_alive() or self.stopping.is_set():
                return False
            self._begin()
            return True

    def stop(self, timeout: float = 5.0) -> None:
        """Ask the thread to stop and wait for it, at most ``timeout`` seconds."""
        with self._lock:
            thread = self._thread
            self.stopping.set()  # from here on nobody revives it
        if thread is not None:
            self.interrupt()
            thread.join(timeout)
            self._thread = None

    def _begin(self) -> None:
        thread = Thread(target=self.run, name=self.thread_name, daemon=True)
        thread.start()
        self._thread = thread  # only now: one that is not alive yet must not be taken for dead

    @abstractmethod
    def run(self) -> None:
        """Work until ``stopping`` is set."""

    @abstractmethod
    def interrupt(self) -> None:
        """End a wait of :meth:`run` at once. Called from another thread."""
