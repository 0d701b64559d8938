"""Error links that Celery calls in place, ``(request, exc, traceback)``, are called once.

Others are jobs, which are recognised by their id. These run inside Celery's handling of the failure, and
a replay would call them again: so each that has returned is noted in the record of the job that failed.
One that was cut short by the death of its process is called again, as a job would run again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from denyut.errors import LeaseLost
from denyut.scripts import Script
from denyut.tasks.claim import Code
from denyut.tasks.continuation import ERROR_LINKS

if TYPE_CHECKING:
    from collections.abc import Callable

    from denyut.tasks.attempt import Attempt

__all__ = ["call_once"]

CALLED = Script("denyut.tasks", "called")


def call_once(attempt: Attempt, name: str, call: Callable[[], Any]) -> Any:
    """Make a call from within ``attempt``; an error link that has returned in an earlier replay is skipped.

    Args:
        attempt: the attempt whose body, or continuation, this is.
        name: the task that is called.
        call: calls it.

    Raises:
        LeaseLost: another attempt sends the continuation by now.
        Exception: what the task raised.
    """
    if not attempt.continuing or not attempt.scopes or ERROR_LINKS not in attempt.scopes[-1]:
        return call()
    pulse, job_id = attempt.pulse, attempt.run.id
    field = f"called:{name}:{attempt.child_id()}"
    record = pulse.keys.job(job_id).record
    if attempt.claim.code == Code.REPLAY and pulse.store.client.hexists(record, field):
        return None
    try:
        return call()
    finally:
        _note(attempt, name, field)


def _note(attempt: Attempt, name: str, field: str) -> None:
    pulse, job_id = attempt.pulse, attempt.run.id
    if CALLED(pulse.store.client, pulse.keys.script(job_id), [job_id, attempt.claim.fence, field]) != b"OK":
        raise LeaseLost(f"job {job_id} belongs to another attempt, which may call {name} again")
