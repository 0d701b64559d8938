"""What an enqueue does next that found its key taken, and is not to be answered with the job that has it.

It takes a few steps, each one atomic script: reserve, give the waiting job this message, run after the
running one. Between two of them the key may change hands; then it begins anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from denyut.errors import IdempotencyConflict, JobExists
from denyut.scripts import Script
from denyut.tasks.claim import us

if TYPE_CHECKING:
    from denyut.app import Denyut
    from denyut.tasks.envelope import Envelope
    from denyut.tasks.unique import Uniqueness
    from denyut.tasks.wire import Wire

__all__ = ["MOST_STEPS", "TAKE", "Step", "Taken", "next_step", "supersede"]

SUPERSEDE = Script("denyut.tasks", "supersede")

#: A key that changes hands that often within one enqueue is not contested in good order.
MOST_STEPS = 100


class Taken(BaseException):
    """Another job has the key: no error, so nobody on the way out may take it for one, and log it.

    ``code`` and ``detail`` are the script's answer: DUPLICATE, CONFLICT, NEXT (of ``reserve``), STARTED, FREE
    (of ``supersede``). ``same``: whether that job has these very arguments.
    """

    def __init__(self, code: str, detail: str, *, same: bool) -> None:
        self.code = code
        self.detail = detail
        self.same = same


@dataclass(frozen=True, slots=True)
class Step:
    """How the key is asked for.

    ``take`` it; ``supersede`` the job ``holder``; run ``after`` it, or ``behind`` it if it lives elsewhere.
    """

    kind: str
    holder: str = ""

    @property
    def mode(self) -> str:
        """What ``reserve.lua`` takes as its thirteenth argument, for a keyed job whose id was drawn."""
        return {"take": "1", "after": "2", "behind": "0"}[self.kind]

    @property
    def fields(self) -> list[str]:
        """Return what the record keeps of it: names and values."""
        return {"after": ["after", "key"], "behind": ["after", "look"]}.get(self.kind, [])


TAKE = Step("take")


def next_step(
    pulse: Denyut, step: Step, taken: Taken, *, task: str, key: str, digest: str, policy: Uniqueness
) -> Step | None:
    """Return the next step of an enqueue that was answered with ``taken``; None: that job is the answer.

    Raises:
        JobExists: by its policy.
        IdempotencyConflict: the job that has the key has begun, and has other arguments.
    """
    if policy.on_conflict == "raise":
        raise JobExists(key, task, taken.detail)
    if taken.code == "FREE":
        return TAKE
    if taken.code != "STARTED":
        return Step("supersede", taken.detail)
    if policy.on_conflict == "replace":
        if taken.same:
            return None
        raise IdempotencyConflict(key, task, step.holder)
    near = pulse.keys.partition_of(step.holder) == pulse.keys.partition_of(digest)
    return Step("after" if near else "behind", step.holder)


def supersede(
    pulse: Denyut,
    holder: str,
    envelope: Envelope,
    wire: Wire | None,
    *,
    task: str,
    digest: str,
    fp: str,
    token: str,
    delay: float,
    expires: float | None,
    policy: Uniqueness,
) -> list[Any]:
    """Give ``holder``, which has the key ``digest``, this message if it has not begun; return the reply."""
    lists = wire.lists if wire else []
    args: list[Any] = [holder, task, envelope.queue, fp, token, wire.payload if wire else envelope.dump()]
    args += [us(max(delay, 0.0)), "" if expires is None else us(expires), len(lists)]
    args += [policy.until, policy.period_us, envelope.headers.get("origin") or ""]
    return list(SUPERSEDE(pulse.store.client, [*pulse.keys.script(holder, digest), *lists], args))
