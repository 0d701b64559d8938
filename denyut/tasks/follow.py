"""A job whose key belongs to another job takes over that job's outcome.

It arises where an id was given beforehand and somebody waits for it (a member of a chain, group or
chord), so that the enqueue could not simply answer with the other job. It waits in the store, not
in a worker, and looks again with growing pauses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from denyut.scripts import Script
from denyut.states import TERMINAL, State
from denyut.tasks.claim import us
from denyut.tasks.keying import CLOSE_KEY, hold_key

if TYPE_CHECKING:
    from denyut.app import Denyut
    from denyut.tasks.envelope import Stamp

__all__ = ["Followed", "follow", "park"]

PARK = Script("denyut.tasks", "park")
REFOLLOW = Script("denyut.tasks", "refollow")
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 5.0


@dataclass(frozen=True, slots=True)
class Followed:
    """The job that was followed; ``state`` is None if it is gone, so that the follower runs itself."""

    id: str
    state: State | None = None
    result: str = ""
    exception: str = ""


def follow(pulse: Denyut, job_id: str, other: str, stamp: Stamp) -> Followed | None:
    """Return the outcome of job ``other``, or None after parking ``job_id`` until later."""
    client = pulse.store.client
    raw = client.hmget(pulse.keys.job(other).record, "state", "result", "exc")
    if raw[0] is None and _take_over(pulse, job_id, other):
        return Followed(other)
    state = State(raw[0].decode()) if raw[0] else None
    if state in TERMINAL:
        return Followed(other, state, _text(raw[1]), _text(raw[2]))
    pause = min(_FIRST_PAUSE * 2 ** min(max(stamp.gen, 1), 10), _LONGEST_PAUSE)
    park(pulse, job_id, stamp.gen, pause)
    return None


def park(pulse: Denyut, job_id: str, generation: int, pause: float) -> bool:
    """Let the queued job ``job_id`` wait in the store for ``pause`` seconds, then be published again.

    Returns:
        False if ``generation`` is not its newest message: then nothing is to be done with that.
    """
    args = [job_id, generation, us(pause)]
    return bool(PARK(pulse.store.client, pulse.keys.script(job_id), args))


def _take_over(pulse: Denyut, job_id: str, other: str) -> bool:
    """Take the key of a job that is gone; if somebody was faster, follow that one from now on."""
    client, record = pulse.store.client, pulse.keys.job(job_id).record
    digest, fp = (_text(value) for value in client.hmget(record, "digest", "fp"))
    if not digest:
        return True
    CLOSE_KEY(client, [pulse.keys.idempotency(digest)], [other, 0])
    answer, holder = hold_key(pulse, job_id, digest, fp, recorded=True)
    # Who has the key follows nobody: else two jobs might come to wait for each other.
    mine = answer == "HELD"
    REFOLLOW(client, pulse.keys.script(job_id), [job_id, "" if mine else holder])
    return mine


def _text(value: Any) -> str:
    return value.decode() if value else ""
