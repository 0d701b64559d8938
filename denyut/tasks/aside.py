"""What a pool process tells the worker's main process of a delivery that gives no result.

Celery must see its own ``Ignore``. It is not in :mod:`denyut.errors`, which the heartbeat's process
imports, and that does without Celery.
"""

from __future__ import annotations

from celery.exceptions import Ignore

__all__ = ["StepAside", "Stopped"]


class StepAside(Ignore):  # type: ignore[misc]
    """This delivery must not run. Never reaches user code.

    Told to the worker's main process so that it settles the message without a result.
    ``keep`` is true when the broker's entry belongs to a live owner and must not be acked away.
    """

    def __init__(self, reason: str = "", keep: bool = False) -> None:
        super().__init__(reason, keep)
        self.reason = reason
        self.keep = keep


class Stopped(Ignore):  # type: ignore[misc]
    """The job ended as CANCELLED, and Celery's result says so. Never reaches user code.

    Told to the worker's main process so that it settles the message and announces it as revoked.
    """

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
