"""The claim: the atomic step that gives one worker the right to run an attempt."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from denyut.scripts import Script
from denyut.tasks.fate import BLAMED, is_to_blame
from denyut.tasks.node import current_node
from denyut.tasks.patience import patiently

if TYPE_CHECKING:
    from collections.abc import Callable

    from denyut.app import Denyut
    from denyut.tasks.envelope import Stamp

__all__ = ["Claim", "Code", "claim"]

CLAIM = Script("denyut.tasks", "claim")


class Code(StrEnum):
    """What the record said to a claim."""

    CLAIMED = "CLAIMED"  # run it
    REPLAY = "REPLAY"  # it has ended: send its continuation, do not run it
    DEAD = "DEAD"  # its crash budget is spent: tell Celery that it failed
    CONFLICT = "CONFLICT"  # its key belongs to a job with other arguments: fail it
    FOLLOW = "FOLLOW"  # its key belongs to another job: take over that job's outcome
    BUSY = "BUSY"  # another attempt is running
    STALE = "STALE"  # a newer message, or a later time, has replaced this message
    DONE = "DONE"  # it ended, and everything that follows was sent
    JUDGE = "JUDGE"  # its worker is gone: claim again, saying who is to blame
    SUSPECT = "SUSPECT"  # it shared a dead worker with others: it must wait for its turn
    UNRECORDED = "UNRECORDED"  # there is no record: claim again, with the message


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The answer. ``fence`` is 0 where nothing was claimed; ``detail`` says who, or which state.

    ``run`` counts how often a frozen signature was applied again after the job had ended.
    """

    code: Code
    owner: str
    fence: int = 0
    attempt: int = 0
    crashes: int = 0
    checkpoint: str = ""
    digest: str | None = None
    run: int = 0
    detail: str = ""
    #: Of one that follows another job: how it hears of that one's end, if it then runs itself.
    after: str = ""
    result: str = ""
    exception: str = ""

    @property
    def lease(self) -> str:
        """The value of the lease key while this claim holds it."""
        return f"{self.owner}#{self.fence}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """The idempotency key of a plain client's message, resolved before the claim."""

    key: str = ""
    digest: str = ""
    fingerprint: str = ""
    follows: str = ""
    conflict: str = ""
    #: Further fields of the record: names and values.
    fields: tuple[str, ...] = ()


def claim(
    pulse: Denyut,
    job_id: str,
    *,
    task: str,
    queue: str,
    stamp: Stamp,
    pid: int,
    message: Callable[[], tuple[str, Key]],
    own: bool = False,
    retention: float | None = None,
) -> Claim:
    """Claim the job ``job_id`` for this process, in one round trip.

    Args:
        pulse: the app's Denyut.
        job_id: the task id.
        task: the task's name.
        queue: where its message came from.
        stamp: the stamp of the message.
        pid: the process that will run it.
        message: called only if there is no record: returns the message as data, and its key.
        own: run a job that followed another which is gone.
        retention: seconds that an ended job of this task is remembered; None: the setting.

    Raises:
        redis.exceptions.RedisError: if Redis cannot be reached; a worker that cannot ask must not run.
    """
    settings, owner = pulse.settings, current_node().owner
    digest = None
    token = uuid4().hex
    head = [job_id, owner, pid, token, stamp.gen, stamp.marker, stamp.at]
    head += [
        us(settings.lease_ttl),
        us(settings.alive_for),
        settings.max_crashes,
        us(retention or settings.retention),
    ]
    tail: list[Any] = ["", "own" if own else "", "", "", "", "", ""]
    more: tuple[str, ...] = ()
    known = ""

    def attempt() -> list[Any]:
        args = [*head, task, queue, *tail, known, *more]
        return list(CLAIM(pulse.store.client, pulse.keys.script(job_id, digest), args))

    reply = patiently(attempt)
    if _text(reply[0]) == Code.UNRECORDED and pulse.keys.stored and pulse.saving.put_back(job_id):
        reply = patiently(attempt)  # Redis had lost it
    if _text(reply[0]) == Code.UNRECORDED:
        text, key = message()
        tail = [text, "own" if own else "", key.follows, key.conflict, key.key, key.digest, key.fingerprint]
        digest, more = key.digest or None, key.fields
        reply = patiently(attempt)
    if _text(reply[0]) == Code.JUDGE:
        if not is_to_blame(pulse, _text(reply[1]), job_id):
            return Claim(code=Code.SUSPECT, owner=owner, detail=_text(reply[1]))
        known = BLAMED
        reply = patiently(attempt)
    return _parse(reply, owner)


def us(seconds: float) -> int:
    """Return ``seconds`` in whole microseconds."""
    return round(seconds * 1_000_000)


def _parse(reply: list[Any], owner: str) -> Claim:
    code = Code(_text(reply[0]))
    rest = [_text(item) for item in reply[1:]]
    if code not in (Code.CLAIMED, Code.REPLAY, Code.DEAD, Code.CONFLICT):
        return Claim(
            code=code, owner=owner, detail=rest[0] if rest else "", after=rest[1] if len(rest) > 1 else ""
        )
    fence, attempt, crashes, checkpoint, digest, run, *more = rest
    detail, result, exception = [*more, "", "", ""][:3]
    return Claim(
        code=code,
        owner=owner,
        fence=int(fence),
        attempt=int(attempt),
        crashes=int(crashes),
        checkpoint=checkpoint,
        digest=digest or None,
        run=int(run),
        detail=detail,
        result=result,
        exception=exception,
    )


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
