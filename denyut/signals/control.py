"""Remote control: what other processes tell a worker by Celery's own means.

One command of Denyut's own lets the heartbeat beat at once, so that a worker learns of a cancellation
without waiting for its next beat.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from denyut.tasks.cancellation import HURRY

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["install_control"]

#: The attribute of a worker that lets its heartbeat beat now.
_HURRY = "denyut_hurry"


def install_control(worker: Any, hurry: Callable[[], None]) -> None:
    """Let ``worker`` obey Denyut's command. May be called for many workers of a process."""
    from celery.worker.control import Panel

    setattr(worker, _HURRY, hurry)
    if HURRY not in Panel.data:
        Panel.register(name=HURRY, type="control", visible=False)(_beat_now)


def _beat_now(state: Any, **_: Any) -> dict[str, str]:
    """Let the heartbeat beat now."""
    hurry = getattr(state.consumer.controller, _HURRY, None)
    if hurry is None:
        return {"error": "this worker has no heartbeat"}
    hurry()
    return {"ok": "beating"}
