"""Giving a job that waits in the schedule another time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from denyut.scripts import Script
from denyut.states import State
from denyut.tasks.claim import us
from denyut.tasks.key import check_id
from denyut.tasks.times import finite, iso_in, seconds_until

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["Rescheduled", "reschedule"]

RESCHEDULE = Script("denyut.tasks", "reschedule")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescheduled:
    """What became of it. Times are microseconds of Redis' clock.

    ``changed``: whether the job has the new time; one that does not wait is left as it is.
    ``state``: in which it was found; None: there is no such job. ``due``: when it is due now.
    ``expires``: when it expires, if it does; earlier than ``due`` means that it will never run.
    """

    changed: bool
    state: State | None
    due: int | None
    expires: int | None


def reschedule(pulse: Denyut, job_id: str, *, eta: Any = None, countdown: float | None = None) -> Rescheduled:
    """Let the job ``job_id``, which is SCHEDULED or RETRYING, be due at another time.

    Args:
        pulse: the app's Denyut.
        job_id: the job.
        eta: when: a datetime or ISO 8601 text; one that has passed is now.
        countdown: or in how many seconds; 0 or less is now.

    Raises:
        InvalidKey: if ``job_id`` cannot be the id of a job.
        ValueError: if not exactly one of ``eta`` and ``countdown`` is given, or it cannot be meant.
        redis.exceptions.RedisError: if Redis cannot be reached.
    """
    if (eta is None) == (countdown is None):
        raise ValueError(f"eta={eta!r}, countdown={countdown!r}: give exactly one of them")
    if countdown is not None:
        delay = finite(countdown, "countdown")
        iso_in(delay)
    else:
        delay = seconds_until(pulse.app, eta)
    args = [check_id(job_id), us(max(delay, 0.0)), uuid4().hex]
    changed, state, due, expires = RESCHEDULE(pulse.store.client, pulse.keys.script(job_id), args)
    return Rescheduled(
        changed=bool(changed),
        state=State(state.decode()) if state else None,
        due=int(due) if due else None,
        expires=int(expires) if expires else None,
    )
