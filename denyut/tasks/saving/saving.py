"""Write-through: the process that made a transition writes it to the store at once, for a bounded time.

A database that hangs gives no answer and no error, so a thread does the writing and its caller waits no
longer than ``denyut_database_timeout``. What is not written by then is on the index, for the applier.
"""

from __future__ import annotations

import logging
import os
from queue import SimpleQueue
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any

from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError

from denyut.tasks.saving.breaker import Breaker
from denyut.tasks.saving.put_back import put_back
from denyut.tasks.saving.writer import save

if TYPE_CHECKING:
    from collections.abc import Callable

    from denyut.app import Denyut

__all__ = ["Saving"]

logger = logging.getLogger(__name__)


class _Order:
    """Something to do with the store, and whether it is done."""

    def __init__(self, work: Callable[[Any], Any]) -> None:
        self.work = work
        self.over = Event()
        self.done = False
        self.answer: Any = None


class Saving:
    """The writes of one process.

    Args:
        pulse: the app's Denyut, which has a database.
    """

    def __init__(self, pulse: Denyut) -> None:
        self.pulse = pulse
        self.through = pulse.settings.store_writes == "through"
        self._url = pulse.settings.database_url or ""
        self._lock = Lock()
        self._pid = 0
        self._thread: Thread | None = None
        self._renew()

    def prepare(self) -> None:
        """Make what is to be made before the first fork; connects to nothing.

        Raises:
            ConfigurationError: the database's driver is not installed.
        """
        _ = self.pulse.database

    def wrote(self, *job_ids: str) -> bool:
        """Write jobs through that this process has just changed; False if they are left to the applier."""
        if not self.through:
            return False
        return self._within(lambda client: save(self.pulse, client, job_ids)).done

    def put_back(self, job_id: str) -> bool:
        """Put back a job that Redis has lost, if the store has it; False also if it cannot be asked now."""
        return bool(self._within(lambda client: put_back(self.pulse, client, [job_id])).answer)

    def _within(self, work: Callable[[Any], Any]) -> _Order:
        """Do something with the store, and wait for it no longer than anybody may."""
        order = _Order(work)
        if self._pid != os.getpid():
            self._renew()  # the thread, and its lock, are the parent's
        if self.breaker.is_open:
            return order
        self._queue.put(order)
        self._start()
        if not order.over.wait(self.pulse.settings.database_timeout):
            text = f"no answer within {self.pulse.settings.database_timeout:g} s"
            self.breaker.failed(TimeoutError(text))
        return order

    def failed(self, client: Any, exc: BaseException) -> None:
        """Note that the store could not be written, where every process can read it."""
        text = self.breaker.failed(exc)
        pipe = client.pipeline(transaction=False)
        pipe.hset(self.pulse.keys.saving(), mapping={"error": text, "error_at": self.pulse.store.now_us()})
        pipe.hincrby(self.pulse.keys.saving(), "failures", 1)
        pipe.execute()

    def worked(self, client: Any, jobs: int) -> None:
        """Note that so many jobs were written."""
        self.breaker.worked()
        pipe = client.pipeline(transaction=False)
        pipe.hincrby(self.pulse.keys.saving(), "jobs", jobs)
        pipe.hincrby(self.pulse.keys.saving(), "writes", 1)
        pipe.hdel(self.pulse.keys.saving(), "error", "error_at")
        pipe.execute()

    def close(self) -> None:
        """End the thread, if it answers; the next write starts another."""
        thread, self._thread = self._thread, None
        if thread is not None and self._pid == os.getpid():
            self._queue.put(None)
            thread.join(self.pulse.settings.database_timeout)

    def _renew(self) -> None:
        self._lock = Lock()
        self._pid = os.getpid()
        self.breaker = Breaker(self._url)
        self._queue: SimpleQueue[_Order | None] = SimpleQueue()
        self._thread = None

    def _start(self) -> None:
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = Thread(target=self._work, name="denyut-saving", daemon=True)
                self._thread.start()

    def _work(self) -> None:
        while (order := self._queue.get()) is not None:
            try:
                if not self.breaker.is_open:  # what waited behind an order that hung is left to the applier
                    order.answer = order.work(self.pulse.store.client)
                    order.done = True
                    self.breaker.worked()
            except RedisError as exc:  # the store is not to blame; the applier writes it
                logger.warning("job store: not written through, for Redis: %s", exc)
            except (SQLAlchemyError, OSError) as exc:
                self.breaker.failed(exc)
            finally:
                order.over.set()
