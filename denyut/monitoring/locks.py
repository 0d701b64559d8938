"""``app.denyut.locks``: who holds which lock of the user's own, and taking one away by hand."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any

from denyut.errors import NotReleasable
from denyut.scripts import run_all
from denyut.tasks.locks.naming import check_name
from denyut.tasks.locks.steps import Held, release_call
from denyut.tasks.saving.audit import audited

if TYPE_CHECKING:
    from collections.abc import Sequence

    from denyut.app import Denyut

__all__ = ["HeldLock", "Locks"]

_FIELDS = ("token", "fence", "until", "host", "pid", "job", "acquired", "waited")


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldLock:
    """One lock that is held. ``held_s`` and ``left_s``: seconds since it was taken, and until it lapses.

    ``job`` is the id of the job that holds it, '' if none does. ``wanted``: somebody waits for it, or has
    waited within the last seconds.
    """

    name: str
    fence: int
    host: str
    pid: int
    job: str
    held_s: float
    left_s: float
    wanted: bool


class Locks:
    """The locks of one app, as an operator sees them. For taking one see ``app.denyut.lock()``."""

    def __init__(self, pulse: Denyut) -> None:
        self._pulse = pulse

    def list(self, *, most: int = 10_000) -> list[HeldLock]:
        """Return the locks that are held, the oldest first. Two pipelined round trips.

        Args:
            most: read no more than so many of each partition.

        Raises:
            redis.exceptions.RedisError: if they cannot be read.
        """
        client, parts = self._pulse.store.client, self._pulse.keys.all_partitions()
        now = self._pulse.store.now_us()
        pipe = client.pipeline(transaction=False)
        for part in parts:
            pipe.zrangebyscore(part.locks, f"({now}", "+inf", start=0, num=most)
        names = [name.decode() for found in pipe.execute() for name in found]
        return sorted(self._read(client, names), key=lambda lock: lock.held_s, reverse=True)

    def get(self, name: str) -> HeldLock | None:
        """Return who holds the lock ``name``; None if nobody does.

        Raises:
            InvalidLock: for a name that no lock can have.
        """
        return next(iter(self._read(self._pulse.store.client, [check_name(name)])), None)

    def release(self, name: str, fence: int, *, reason: str = "", by: str | None = None) -> None:
        """Take a lock away from its holder, and wake the next. The holder is told within a beat.

        He may be at work in what the lock protects: what he writes from now on is refused only if his
        fence is compared there. So this is for a holder that is known to be gone, or stuck.

        Args:
            name: of the lock.
            fence: of the hold that is meant, as :meth:`list` and :meth:`get` tell it.
            reason: why, for the audit.
            by: who, for the audit; None: the user and host of this process.

        Raises:
            NotReleasable: there is no such hold (any more).
            InvalidLock: for a name that no lock can have.
        """
        check_name(name)
        with audited(self._pulse, "release lock", by=by, reason=reason, name=name, fence=fence):
            self._release(name, fence)

    def _release(self, name: str, fence: int) -> None:
        pulse, now = self._pulse, monotonic()
        held = Held(name, "", fence, 0.0, now, 0, "")
        call = release_call(pulse.keys, held, lease_ttl=pulse.settings.lease_ttl, now=now, by_hand=True)
        if not run_all(pulse.store.client, [call])[0]:
            found = self.get(name)
            is_ = f"it is held with fence {found.fence}" if found else "nobody holds it"
            raise NotReleasable(f"lock {name!r} is not held with fence {fence}: {is_}; nothing was released")

    def _read(self, client: Any, names: Sequence[str]) -> Sequence[HeldLock]:
        pipe = client.pipeline(transaction=False)
        pipe.time()
        for name in names:
            pipe.hmget(self._pulse.keys.lock(name).lock, _FIELDS)
        (seconds, micros), *raw = pipe.execute()
        now = int(seconds) * 1_000_000 + int(micros)
        found = [_held(name, fields, now) for name, fields in zip(names, raw, strict=True)]
        return [lock for lock in found if lock is not None]


def _held(name: str, fields: Sequence[bytes | None], now: int) -> HeldLock | None:
    token, fence, until, host, pid, job, acquired, waited = (field or b"" for field in fields)
    if not token or int(until) <= now:
        return None
    return HeldLock(
        name=name,
        fence=int(fence),
        host=host.decode("utf-8", "replace"),
        pid=int(pid),
        job=job.decode("utf-8", "replace"),
        held_s=(now - int(acquired)) / 1e6,
        left_s=(int(until) - now) / 1e6,
        wanted=bool(waited) and int(waited) > now,
    )
