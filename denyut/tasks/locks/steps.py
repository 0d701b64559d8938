"""The three atomic steps of a lock, as Python calls of the Lua scripts. Each may be sent twice."""

from __future__ import annotations

import os
from dataclasses import dataclass
from secrets import token_hex
from socket import gethostname
from typing import TYPE_CHECKING, Any, NamedTuple

from denyut.scripts import Script, run_all

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from denyut.keys import Keys
    from denyut.scripts import Call

__all__ = ["GRACE", "LOOK", "Held", "Holder", "Refusal", "acquire", "release_call", "renew", "renew_calls"]

ACQUIRE = Script("denyut.tasks.locks", "acquire")
RENEW = Script("denyut.tasks.locks", "renew")
RELEASE = Script("denyut.tasks.locks", "release")

#: How long a released lock is kept for the one that was woken (s).
GRACE = 2.0
#: How often whoever waits looks at the lock, at least (s): its holder may have died.
LOOK = 5.0
#: How long a hold that is over is remembered, at least (s): longer than any reply is waited for, and twice as
#: long as an owner may not have been told that it is his.
_REMEMBER = 60.0
#: How much later than planned a waiter may look (s).
_SLACK = 1.0
#: Most locks in one call, so that many do not hold Redis up.
_CHUNK = 500


@dataclass(frozen=True, slots=True)
class Holder:
    """Who has a lock: host, process, job ('' if it is none), fence, and since when (us of Redis' clock)."""

    host: str
    pid: int
    job: str
    fence: int
    acquired: int

    def __str__(self) -> str:
        job = f" (job {self.job})" if self.job else ""
        return f"process {self.pid} on {self.host}{job}, fence {self.fence}"


class Refusal(NamedTuple):
    """The lock is taken: by whom (None: one was woken and is on his way), and for how long yet (s)."""

    holder: Holder | None
    left: float


class Held(NamedTuple):
    """One hold, as its owner knows it. ``answered``: when it was last told that it is his (s, monotonic)."""

    name: str
    token: str
    fence: int
    ttl: float
    answered: float
    pid: int
    job: str


def remember(lease_ttl: float) -> int:
    """Return how long a hold that is over is remembered (us)."""
    return round(max(_REMEMBER, 4 * lease_ttl) * 1e6)


def acquire(
    client: Any,
    keys: Keys,
    *,
    name: str,
    token: str,
    ttl: float,
    baton: str,
    waits: float,
    job: str,
    lease_ttl: float,
) -> int | Refusal | None:
    """Return the fence if the lock is taken now, else who has it; None if ``token`` was used before.

    Args:
        client: Redis.
        keys: of the app.
        name: of the lock.
        token: of this try: 1 to 64 characters that nobody else uses.
        ttl: seconds.
        baton: what the caller was woken with.
        waits: seconds that he will wait if he is refused.
        job: id of the job that he is.
        lease_ttl: the setting.

    Raises:
        redis.exceptions.RedisError: it is not known whether it was taken.
    """
    at = keys.lock(name)
    wait_us = round((min(waits, LOOK) + _SLACK) * 1e6) if waits > 0 else 0
    args = [name, token, round(ttl * 1e6), remember(lease_ttl), baton, wait_us, gethostname(), os.getpid()]
    names = [at.lock, at.wake, at.locks, at.fences, at.freed, at.counters]
    reply = ACQUIRE(client, names, [*args, job])
    if reply[0] == b"TAKEN":
        return int(reply[1])
    return _refusal(reply) if reply[0] == b"WAIT" else None


def renew(client: Any, keys: Keys, held: Held, *, lease_ttl: float, now: float) -> str:
    """Renew one lock and return the answer of ``renew.lua``."""
    [(_, call)] = renew_calls(keys, [held], lease_ttl=lease_ttl, now=now)
    return str(run_all(client, [call])[0][0].decode("utf-8", "replace"))


def renew_calls(
    keys: Keys, held: Iterable[Held], *, lease_ttl: float, now: float
) -> list[tuple[Sequence[Held], Call]]:
    """Return the calls that renew ``held``, each with the locks that its answers are about, in order."""
    host = gethostname()
    parts: dict[int, list[Held]] = {}
    for each in held:
        parts.setdefault(keys.partition_of(each.name), []).append(each)
    chunks = [part[at : at + _CHUNK] for part in parts.values() for at in range(0, len(part), _CHUNK)]
    return [(chunk, _renew_call(keys, chunk, host, lease_ttl, now)) for chunk in chunks]


def release_call(keys: Keys, held: Held, *, lease_ttl: float, now: float, by_hand: bool = False) -> Call:
    """Return the call that releases ``held``; by hand its fence alone says which hold is meant."""
    at = keys.lock(held.name)
    args = [held.name, "" if by_hand else held.token, held.fence, remember(lease_ttl), token_hex(16)]
    args += [round(GRACE * 1e6), round((now - held.answered) * 1e6)]
    return RELEASE.with_([at.lock, at.wake, at.locks, at.freed], args)


def _renew_call(keys: Keys, chunk: Sequence[Held], host: str, lease_ttl: float, now: float) -> Call:
    at = keys.lock(chunk[0].name)
    args: list[Any] = [remember(lease_ttl)]
    for each in chunk:
        args += [each.name, each.token, each.fence, round(each.ttl * 1e6)]
        args += [round((now - each.answered) * 1e6), host, each.pid, each.job]
    names = [at.locks, at.fences, at.freed, *(keys.lock(each.name).lock for each in chunk)]
    return RENEW.with_(names, args)


def _refusal(reply: list[bytes]) -> Refusal:
    left, fence, host, pid, job, acquired = reply[1:]
    if not pid:
        return Refusal(None, int(left) / 1e6)
    holder = Holder(
        host=host.decode("utf-8", "replace"),
        pid=int(pid),
        job=job.decode("utf-8", "replace"),
        fence=int(fence),
        acquired=int(acquired),
    )
    return Refusal(holder, int(left) / 1e6)
