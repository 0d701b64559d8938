"""Giving the job of a dead pool process to recovery, without holding up the heartbeat."""

from __future__ import annotations

import logging
from queue import SimpleQueue
from typing import TYPE_CHECKING

from denyut.service import Service

if TYPE_CHECKING:
    from collections.abc import Callable

    from denyut.tasks.slots import SlotState

__all__ = ["Handover"]

logger = logging.getLogger(__name__)


class Handover(Service):
    """A thread of its own: recovery publishes, which may block for as long as the broker likes.

    Args:
        recover: moves the job of a dead process on.
        then: called after it, whether it could or not.
    """

    thread_name = "denyut-handover"

    def __init__(self, recover: Callable[[SlotState], None], then: Callable[[], None]) -> None:
        super().__init__()
        self._recover = recover
        self._then = then
        self._dead: SimpleQueue[SlotState | None] = SimpleQueue()

    def give(self, job: SlotState) -> None:
        """Hand over ``job``, whose process is dead. Never blocks."""
        self._dead.put(job)

    def interrupt(self) -> None:
        """End the thread when what is left has been handed over."""
        self._dead.put(None)

    def run(self) -> None:
        """Hand over one job after another."""
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
