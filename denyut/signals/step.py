"""A step of Celery's worker blueprint: the heartbeat starts and ends with the pool, in every worker.

The signal ``worker_ready`` would be later, and the workers of Celery's own test fixtures send neither
that nor ``worker_shutdown``.
"""

from __future__ import annotations

from threading import Thread
from typing import TYPE_CHECKING, Any

from celery.bootsteps import StartStopStep

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["add_step"]


def add_step(
    app: Any,
    on_start: Callable[[Any], None],
    on_stop: Callable[[], None],
    on_end: Callable[[], None],
) -> None:
    """Let every worker of ``app`` call back when its pool has started, and when all of it has ended.

    Args:
        app: a Celery app.
        on_start: called with the worker, before it consumes.
        on_stop: called when it begins to stop; jobs may be running.
        on_end: called from a thread of its own, after the pool has ended.
    """

    class Pulse(StartStopStep):  # type: ignore[misc]
        """Starts what Denyut runs in a worker."""

        requires = ("celery.worker.components:Pool",)

        def start(self, parent: Any) -> None:
            on_start(parent)

        def stop(self, parent: Any) -> None:
            on_stop()

            # The steps end in reverse order: the pool ends after this one, and its jobs may take long.
            def wait() -> None:
                parent.blueprint.shutdown_complete.wait()
                on_end()

            Thread(target=wait, name="denyut-end", daemon=True).start()

        terminate = stop

    app.steps["worker"].add(Pulse)
