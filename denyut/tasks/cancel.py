"""Ending a job from outside its attempt: revoked, expired, or over its hard time limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from denyut.scripts import Script
from denyut.states import State
from denyut.tasks.claim import us
from denyut.tasks.finish import Outcome

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["end_from_outside"]

END = Script("denyut.tasks", "end")


def end_from_outside(
    pulse: Denyut, job_id: str, state: State, exc: BaseException | None, *, retention: float | None
) -> State | None:
    """End a live job as ``state``, whatever it is doing, and close it. A running attempt is fenced off.

    Returns:
        The state in which the job was found: if that is terminal, nothing was changed. None if
        there is no record.
    """
    outcome = Outcome.of_error(state, exc) if exc is not None else Outcome(state=state)
    digest = pulse.store.client.hget(pulse.keys.job(job_id).record, "digest")
    keys = pulse.keys.script(job_id, digest.decode() if digest else None)
    args = [job_id, state, outcome.error, us(retention or pulse.settings.retention)]
    reply = END(pulse.store.client, keys, args)
    return State(reply.decode()) if reply else None
