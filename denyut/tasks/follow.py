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
from denyut.tasks.keying import hold_key, release_key
from denyut.tasks.unique import Uniqueness

if TYPE_CHECKING:
    from denyut.app import Denyut
    from denyut.tasks.envelope import Stamp

__all__ = ["Followed", "follow", "park"]

PARK = Script("denyut.tasks", "park")
REFOLLOW = Script("denyut.tasks", "refollow")
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 5.0
#: One that is told looks seldom by itself: only what tells it may have been lost.
_WHEN_TOLD = 60.0


@dataclass(frozen=True, slots=True)
class Followed:
    """The job that was followed; ``state`` is None if it is gone, so that the follower runs itself."""

    id: str
    state: State | None = None
    result: str = ""
    exception: str = ""


def follow(pulse: Denyut, job_id: str, other: str, stamp: Stamp, *, after: str = "") -> Followed | None:
    """Return the outcome of job ``other``, or None after parking ``job_id`` until later.

    Args:
        pulse: the app's Denyut.
        job_id: the job whose message has come.
        other: the job that it follows.
        stamp: of the message.
        after: ``key`` or ``look``: it runs itself when the other has ended, and hears of that from the key
            or looks for itself; empty: it takes over the other's outcome.
    """
    client = pulse.store.client
    raw = client.hmget(pulse.keys.job(other).record, "state", "result", "exc")
    state = State(raw[0].decode()) if raw[0] else None
    if (state is None or (after and state in TERMINAL)) and _take_over(pulse, job_id, other):
        return Followed(other)
    if state in TERMINAL and not after:
        return Followed(other, state, _text(raw[1]), _text(raw[2]))
    pause = min(_FIRST_PAUSE * 2 ** min(max(stamp.gen, 1), 10), _LONGEST_PAUSE)
    digest = None
    if after == "key" and state is not None:
        pause, digest = _WHEN_TOLD, _text(client.hget(pulse.keys.job(job_id).record, "digest")) or None
    park(pulse, job_id, stamp.gen, pause, digest)
    return None


def park(pulse: Denyut, job_id: str, generation: int, pause: float, digest: str | None = None) -> bool:
    """Let the queued job ``job_id`` wait in the store for ``pause`` seconds, then be published again.

    With the ``digest`` of its key it is published at once if it has been given that key meanwhile.

    Returns:
        False if ``generation`` is not its newest message: then nothing is to be done with that.
    """
    args = [job_id, generation, us(pause)]
    return bool(PARK(pulse.store.client, pulse.keys.script(job_id, digest), args))


def _take_over(pulse: Denyut, job_id: str, other: str) -> bool:
    """Take the key of a job that is gone; if somebody was faster, follow that one from now on."""
    client, record = pulse.store.client, pulse.keys.job(job_id).record
    digest, fp, until, period = map(_text, client.hmget(record, "digest", "fp", "until", "unique_us"))
    if not digest:
        return True
    release_key(pulse, other, digest, "failed")
    policy = Uniqueness(until=until, period=int(period) / 1e6 if period else None)
    answer, holder = hold_key(pulse, job_id, digest, fp, recorded=True, policy=policy)
    # Who has the key follows nobody: else two jobs might come to wait for each other.
    mine = answer == "HELD"
    REFOLLOW(client, pulse.keys.script(job_id), [job_id, "" if mine else holder])
    return mine


def _text(value: Any) -> str:
    return value.decode() if value else ""
