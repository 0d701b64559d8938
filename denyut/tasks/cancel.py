"""Ending a job from outside its attempt: revoked, expired, or over its hard time limit."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from denyut.scripts import Script
from denyut.states import State
from denyut.tasks.claim import us
from denyut.tasks.finish import Outcome
from denyut.tasks.keying import close_foreign_key
from denyut.tasks.node import current_node
from denyut.tasks.reason import why_ended

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["end_from_outside"]

END = Script("denyut.tasks", "end")


def end_from_outside(
    pulse: Denyut,
    job_id: str,
    state: State,
    exc: BaseException | None = None,
    *,
    retention: float | None,
    running: bool,
    owner: str = "",
    pid: int | None = None,
    generation: int = 0,
) -> tuple[bool, State | None]:
    """End a live job as ``state`` and close it.

    Args:
        pulse: the app's Denyut.
        job_id: the job.
        state: a terminal state.
        exc: why, if there is an error to tell.
        retention: seconds to remember it; None: the setting.
        running: end it also if an attempt is running, which is fenced off.
        owner: with ``running``: only the attempt of this worker node,
        pid: in this process of it, which may have got no further than to receive the message of
        generation: that number; an attempt whose job is queued again by now ends nothing.

    Returns:
        Whether it was ended, and the state in which it was found (None: there is no record).
    """
    outcome = Outcome.of_error(state, exc) if exc is not None else Outcome(state=state)
    digest = pulse.store.client.hget(pulse.keys.job(job_id).record, "digest")
    keys = pulse.keys.script(job_id, digest.decode() if digest else None)
    args = [job_id, state, outcome.error, us(retention or pulse.settings.retention), "1" if running else "0"]
    args += [owner, pid or "", current_node().owner, os.getpid()]
    args += [why_ended(exc, outcome.error) if state == State.FAILED else "", generation]
    ended, found = END(pulse.store.client, keys, args)
    if ended:
        close_foreign_key(pulse, job_id, digest.decode() if digest else None)
    return bool(ended), State(found.decode()) if found else None
