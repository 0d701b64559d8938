"""Ending a job from outside its attempt: revoked, expired, or over its hard time limit."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from denyut.scripts import Script
from denyut.states import State
from denyut.tasks.claim import us
from denyut.tasks.failure import failure_of
from denyut.tasks.finish import Outcome
from denyut.tasks.keying import close_foreign_key
from denyut.tasks.node import current_node
from denyut.tasks.reason import why_ended

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["Ended", "end_from_outside"]

END = Script("denyut.tasks", "end")


class Ended(NamedTuple):
    """What became of a job that was to be ended from outside."""

    #: Whether it was ended.
    done: bool
    #: The state in which it was found; None: there is no record.
    found: State | None
    #: Of whoever ended it; 0 if nobody did.
    fence: int
    #: Of its idempotency key.
    digest: str | None


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
    untold: Any = None,
) -> Ended:
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
        untold: its task, if Celery is still to be told of ``exc``. Then it is not closed: the caller has
            its lease, tells, and settles it (``denyut.tasks.telling``). If he dies, recovery has it told.
    """
    outcome = Outcome.of_error(state, exc) if exc is not None else Outcome(state=state)
    if untold is not None and isinstance(exc, Exception):
        outcome = failure_of(untold, state, exc)
    digest = pulse.store.client.hget(pulse.keys.job(job_id).record, "digest")
    keys = pulse.keys.script(job_id, digest.decode() if digest else None)
    args = [job_id, state, outcome.error, us(retention or pulse.settings.retention), "1" if running else "0"]
    args += [owner, pid or "", current_node().owner, os.getpid()]
    args += [why_ended(exc, outcome.error) if state == State.FAILED else "", generation]
    args += [outcome.exception, us(pulse.settings.lease_ttl) if untold is not None else ""]
    done, found, fence = END(pulse.store.client, keys, args)
    ended = Ended(
        bool(done), State(found.decode()) if found else None, int(fence), digest.decode() if digest else None
    )
    if done:
        close_foreign_key(pulse, job_id, ended.digest)
    return ended
