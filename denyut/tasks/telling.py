"""Telling Celery of the end of a job in place of its attempt, and settling it when that is done."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from denyut.tasks.attempt import Attempt, activate_attempt
from denyut.tasks.claim import Claim, Code
from denyut.tasks.finish import settle
from denyut.tasks.run import JobRun

if TYPE_CHECKING:
    from collections.abc import Iterator

    from denyut.app import Denyut
    from denyut.states import State

__all__ = ["telling"]


@contextmanager
def telling(
    pulse: Denyut, task: Any, job_id: str, state: State, *, fence: int, digest: str | None, owner: str
) -> Iterator[None]:
    """Let what is sent inside the ``with`` block be what a replay would send; settle the job after it.

    If the block raises, the job stays unsettled: when the lease is over, recovery has it told again. What
    was sent is not sent twice then, as it has the same ids.

    Args:
        pulse: the app's Denyut.
        task: its task; None if it is not known here.
        job_id: the job.
        state: how it has ended; it is not COMPLETED.
        fence: under which it has.
        digest: of its idempotency key.
        owner: who has the lease.
    """
    retention = getattr(task, "retention", None) or pulse.settings.retention
    attempt = Attempt(
        pulse=pulse,
        task=task,
        queue="",
        claim=Claim(code=Code.DEAD, owner=owner, fence=fence),
        run=JobRun(id=job_id, task=getattr(task, "name", ""), fence=fence),
        retention=retention,
        ended=state,
    )
    with activate_attempt(attempt):
        yield
    settle(pulse, job_id, fence, digest=digest, retention=retention, completed=False)
