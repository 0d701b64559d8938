"""The continuation of a job has the same ids at every replay, also where Celery draws them itself.

Groups, chords and chains among the callbacks are given random ids by ``celery.canvas`` when they are
applied. While an attempt sends its continuation, those ids are drawn from the job instead (UUID 5 of
job and position, see :meth:`Attempt.child_id`): what was sent before a crash is recognised at the door.
"""

from __future__ import annotations

from typing import Any

from denyut.tasks.attempt import active_attempt

__all__ = ["install_same_ids"]


def install_same_ids() -> None:
    """Let ``celery.canvas`` draw its ids here. Changes nothing outside a job's continuation."""
    from celery import canvas

    draw = canvas.uuid
    if getattr(draw, "of_denyut", False):
        return

    def uuid(*args: Any) -> str:
        attempt = active_attempt()
        return attempt.child_id() if attempt is not None and attempt.continuing else str(draw(*args))

    uuid.of_denyut = True  # type: ignore[attr-defined]
    canvas.uuid = uuid
