"""Giving the job of a dead pool process to recovery, without holding up the heartbeat."""

from __future__ import annotations

import logging
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from denyut.tasks.slots import SlotState

__all__ = ["Handover"]

logger = logging.getLogger(__name__)


class Handover:
    """A thread of its own: recovery publishes, which may block for as long as the broker likes.

    Args:
        recover: moves the job of a dead process on.
        then: called after it, whether it could or not.
    """

    def __init__(self, recover: Callable[[SlotState], None], then: Callable[[], None]) -> None:
        self._recover = recover
        self._then = then
        self._dead: SimpleQueue[SlotState | None] = SimpleQueue()
        self._thread: Thread | None = None

    def start(self) -> None:
        """Start the thread. A second call does nothing."""
        if self._thread is None:
            self._thread = Thread(target=self._run, name="denyut-handover", daemon=True)
            self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        """Hand over what is left and end the thread; waits at most ``timeout`` seconds."""
        if self._thread is not None:
            self._dead.put(None)
            self._thread.join(timeout)
            self._thread = None

    def give(self, job: SlotState) -> None:
        """Hand over ``job``, whose process is dead. Never blocks."""
        self._dead.put(job)

    def _run(self) -> None:
        while (job := self._dead.get()) is not None:
            logger.warning(
                "job %s: process %d died while it ran attempt %d", job.job_id, job.pid, job.attempt
            )
            try:
                self._recover(job)
            except Exception:  # its lease lapses, and any recoverer moves it on then
                logger.exception(
                    "job %s: could not be handed over; it runs again when its lease is over", job.job_id
                )
            try:
                self._then()
            except Exception:  # Celery finds the dead process by itself, only later
                logger.exception("the pool could not be told that process %d is dead", job.pid)
