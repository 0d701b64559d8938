"""Who is to blame when a whole worker dies: its running jobs are looked at together, once.

A job that was alone on it is. Of several, one that had its turn is, if it was the only one of that kind.
Else nobody is known to be, and all become suspects (:mod:`denyut.tasks.suspects`). The answer is kept
for a while, so that the jobs of one worker, whose leases lapse one after another, are judged alike, by
however many recoverers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from denyut.states import State
from denyut.tasks.node import current_node

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["BLAMED", "DRAINED", "SHARED", "is_to_blame"]

#: What may be known of the death of an attempt, for ``denyut/lua/blame.lua``.
BLAMED, SHARED, DRAINED = "blamed", "shared", "drained"

#: How long the answer is kept (s): much longer than the leases of one worker take to lapse.
_KEPT = 600
_CHUNK = 1000


def is_to_blame(pulse: Denyut, owner: str, job_id: str) -> bool:
    """Return whether job ``job_id``, whose lease has lapsed, is to blame for the death of ``owner``.

    Round trips: one if the worker was judged before, else one for each thousand running jobs.

    Args:
        pulse: the app's Denyut.
        owner: the worker that ran the job (``Node.owner``).
        job_id: the job.
    """
    if owner in ("", current_node().owner):
        return True  # the worker lives: what it lost is this job alone
    client, key = pulse.store.client, pulse.keys.fate(owner)
    found = client.get(key)
    if found is None:
        client.set(key, _culprit(pulse, client, owner, job_id), nx=True, ex=_KEPT)
        found = client.get(key)
    return bool(found == job_id.encode())


def _culprit(pulse: Denyut, client: Any, owner: str, job_id: str) -> str:
    running = _running(pulse, client, owner)
    running.setdefault(job_id, False)
    if len(running) == 1:
        return job_id
    suspects = [each for each, suspected in running.items() if suspected]
    return suspects[0] if len(suspects) == 1 else ""


def _running(pulse: Denyut, client: Any, owner: str) -> dict[str, bool]:
    """Return the running jobs of ``owner``, and whether each has its turn, or had it."""
    ids = [
        job_id.decode()
        for part in pulse.keys.all_partitions()
        for job_id in client.zrange(part.leases, 0, -1)
    ]
    found: dict[str, bool] = {}
    for at in range(0, len(ids), _CHUNK):
        chunk = ids[at : at + _CHUNK]
        pipe = client.pipeline(transaction=False)
        for job_id in chunk:
            pipe.hmget(pulse.keys.job(job_id).record, "state", "owner", "suspect")
        for job_id, (state, whose, suspect) in zip(chunk, pipe.execute(), strict=True):
            if state == State.RUNNING.encode() and whose == owner.encode():
                found[job_id] = int(suspect or 0) > 1
    return found
