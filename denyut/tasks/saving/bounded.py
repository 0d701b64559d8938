"""Something that may hang is done in a thread of its own, and waited for no longer than so long.

A database that is paused, or whose host is gone, gives neither an answer nor an error. The thread that waits
for it is left behind, and ends when it gets either; only few may be behind.
"""

from __future__ import annotations

from queue import SimpleQueue
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Bounded", "Order"]

#: Most threads that are left behind; each may hold a connection.
MOST = 3


class Order:
    """Something to be done, whether it is over, and what came of it."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.work = work
        self.over = Event()
        self.answer: Any = None
        self.error: BaseException | None = None


class Bounded:
    """Does one thing after the other in one thread, which is started when it is first needed.

    Args:
        name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = Lock()
        self._queue: SimpleQueue[Order | None] = SimpleQueue()
        self._thread: Thread | None = None
        self._behind: list[Thread] = []

    def submit(self, work: Callable[[], Any]) -> Order | None:
        """Let ``work`` be done soon; None if too many threads hang."""
        with self._lock:
            self._behind = [thread for thread in self._behind if thread.is_alive()]
            if len(self._behind) >= MOST:
                return None
            if self._thread is None or not self._thread.is_alive():
                self._queue = SimpleQueue()
                self._thread = Thread(target=_serve, args=(self._queue,), name=self._name, daemon=True)
                self._thread.start()
            order = Order(work)
            self._queue.put(order)
            return order

    def do(self, work: Callable[[], Any], timeout: float) -> Any:
        """Return ``work()``.

        Args:
            work: is done in the thread.
            timeout: seconds to wait for it. It may be done later all the same.

        Raises:
            TimeoutError: no answer came in time.
            BaseException: what ``work`` raised.
        """
        order = self.submit(work)
        if order is None or not order.over.wait(timeout):
            self._leave_behind()
            raise TimeoutError(f"no answer within {timeout:g} s")
        if order.error is not None:
            raise order.error
        return order.answer

    def close(self, timeout: float) -> None:
        """End the threads, if they answer within ``timeout`` seconds each; the next order starts another."""
        self._leave_behind()
        for thread in self._behind:
            thread.join(timeout)

    def _leave_behind(self) -> None:
        with self._lock:
            if self._thread is not None:
                self._queue.put(None)  # it ends when it comes to this
                self._behind.append(self._thread)
                self._thread = None


def _serve(queue: SimpleQueue[Order | None]) -> None:
    while (order := queue.get()) is not None:
        try:
            order.answer = order.work()
        except BaseException as exc:  # noqa: BLE001 - it is the caller's
            order.error = exc
        finally:
            order.over.set()
