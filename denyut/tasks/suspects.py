"""Jobs that only shared a dead worker run again one at a time, before anybody is blamed.

Most workers die of something else than their jobs: after the first shared death all run again at once. A
job that has shared a second one waits in the store for its turn. One at a time has it, over all workers:
its message is published, and should its worker die, it is known who did it. The turn is over when the job
ends or retries, at the latest after ``denyut_suspect_turn``, so that nobody waits for ever behind a job of
hours, or a queue without a worker. It lapses by itself, whatever dies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from denyut.scripts import Script
from denyut.states import State

if TYPE_CHECKING:
    from denyut.app import Denyut
    from denyut.scripts import Call

__all__ = ["ask", "is_over", "line_up"]

LINE_UP = Script("denyut.tasks", "line_up")
TURN = Script("denyut.tasks", "turn")


def line_up(pulse: Denyut, job_id: str) -> None:
    """Let the suspect ``job_id`` wait for its turn."""
    LINE_UP(pulse.store.client, [pulse.keys.suspects()], [job_id])


def ask(pulse: Denyut, over: str = "") -> Call:
    """Return the call that says whose turn it is, and begins the next one if it is nobody's.

    Args:
        pulse: the app's Denyut.
        over: the job whose turn is over; empty if that is not known of any.
    """
    args = [round(pulse.settings.suspect_turn * 1000), over]
    return TURN.with_([pulse.keys.turn(), pulse.keys.suspects()], args)


def is_over(pulse: Denyut, client: Any, job_id: str) -> bool:
    """Return whether the suspect ``job_id`` has ended or retried, so that the next may have its turn."""
    state, suspect = client.hmget(pulse.keys.job(job_id).record, "state", "suspect")
    return suspect is None or state not in (State.QUEUED.encode(), State.RUNNING.encode())
