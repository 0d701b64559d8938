"""The error for a job of which Redis has no record: none that ever was, or one that was, and how it ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from denyut.errors import JobGone, UnknownJob
from denyut.states import TERMINAL, State
from denyut.tasks.saving.gone import Gone
from denyut.tasks.saving.recall import recall_all

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["no_such_job"]


def no_such_job(pulse: Denyut, job_id: str, so: str = "") -> UnknownJob:
    """Return the error that says what is known of ``job_id``, which is not in Redis.

    Args:
        pulse: the app's Denyut. Without a job store nothing is known of what Redis has forgotten.
        job_id: the job.
        so: what follows, such as ``nothing was cancelled``.
    """
    then = f": {so}" if so else ""
    found = recall_all(pulse, [job_id])
    gone, record = found.gone.get(job_id), found.records.get(job_id)
    if record is not None and b"state" in record:
        state = State(record[b"state"].decode())
        if state not in TERMINAL:
            return UnknownJob(
                f"job {job_id!r} is {state} in the job store, and Redis has lost it{then}; "
                "a worker puts it back within seconds"
            )
        ended = int(record.get(b"finished_at") or 0)
        gone = Gone(state=state, finished_at=ended or None, gone_at=int(record.get(b"forget_at") or ended))
    if gone is not None:
        return JobGone(f"job {job_id!r} is gone: {gone}{then}")
    hint = "" if pulse.keys.stored else ", or its retention is over"
    return UnknownJob(f"no job has the id {job_id!r}{hint}{then}")
