"""``replace()`` by a chain or a chord: the message with the job's id comes later, from another job.

It may come before this attempt has given way (its members are quick), and it may never come (one of
them fails). So the attempt announces it first, and the failure of the replacement ends the job.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from denyut.errors import LeaseLost
from denyut.scripts import Script
from denyut.tasks.claim import us
from denyut.tasks.keying import close_foreign_key

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["announce_replacement", "end_replaced"]

ANNOUNCE = Script("denyut.tasks", "announce")
END_REPLACED = Script("denyut.tasks", "end_replaced")


def announce_replacement(pulse: Denyut, job_id: str, fence: int) -> None:
    """Let the record of the running attempt ``fence`` keep a message with the job's id that comes early.

    Raises:
        LeaseLost: another attempt owns the job; it must not be replaced by this one.
    """
    if ANNOUNCE(pulse.store.client, pulse.keys.script(job_id), [job_id, fence]) != b"OK":
        raise LeaseLost(f"job {job_id} belongs to another attempt; it was not replaced")


def end_replaced(pulse: Denyut, job_id: str, exc: object) -> bool:
    """End the job ``job_id`` as FAILED if it waits for a replacement, which has failed with ``exc``.

    Returns whether it did.
    """
    client = pulse.store.client
    replaced, raw = client.hmget(pulse.keys.job(job_id).record, "replaced", "digest")
    if replaced is None:
        return False
    digest = raw.decode() if raw else None
    error = json.dumps([type(exc).__name__, str(exc)[:1000]])
    args = [job_id, error, us(pulse.settings.retention)]
    ended = END_REPLACED(client, pulse.keys.script(job_id, digest), args)
    if ended:
        close_foreign_key(pulse, job_id, digest)
    return bool(ended)
