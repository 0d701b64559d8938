"""``app.denyut.lock(name)``: one holder at a time, over all processes and hosts, with a fence.

A lock alone is not enough: a process may be paused at any line, and go on when its lock has lapsed and
another has it. So each hold has a fence, a number that only grows: hand it to whatever the lock protects,
and let that refuse a lower one (M. Kleppmann, "How to do distributed locking", 2016). See docs/locks.md.
"""

from __future__ import annotations

import logging
import os
from contextlib import closing, suppress
from functools import partial
from math import inf
from secrets import token_hex
from time import monotonic
from typing import TYPE_CHECKING, Any, Self

from redis.exceptions import RedisError

from denyut.errors import LockLost, LockTaken
from denyut.scripts import run_all
from denyut.tasks.locks import taken
from denyut.tasks.locks.holds import JobHold, OwnHold
from denyut.tasks.locks.naming import check_name, check_timeout, check_ttl
from denyut.tasks.locks.steps import LOOK, Held, Refusal, acquire, release_call, renew
from denyut.tasks.locks.waiting import Waiting
from denyut.tasks.patience import patiently
from denyut.tasks.run import active_run
from denyut.tasks.slots import current_block

if TYPE_CHECKING:
    from types import EllipsisType, TracebackType

    from denyut.app import Denyut
    from denyut.tasks.locks.holds import Hold
    from denyut.tasks.run import JobRun

__all__ = ["Lock", "let_go"]

logger = logging.getLogger(__name__)

#: How long a wait goes on while Redis cannot be reached (s).
_PATIENCE = 60.0


class Lock:
    """A lock of the user's own; made by ``app.denyut.lock()``. One object is for one use at a time.

    ``with lock:`` waits for it and releases it. Not re-entrant.
    """

    def __init__(
        self, pulse: Denyut, name: str, *, ttl: float | None, timeout: float | None, renew: bool
    ) -> None:
        self.pulse = pulse
        self.name = check_name(name)
        self.ttl = check_ttl(ttl, lease_ttl=pulse.settings.lease_ttl, renew=renew)
        self.renew = renew
        #: Who has it, as the last refusal has told; None: nobody has refused.
        self.refused: Refusal | None = None
        #: The job that has it, and where this process has noted that.
        self.run: JobRun | None = None
        self.place: Any = None
        self._timeout = check_timeout(timeout)
        self._hold: Hold | None = None
        self._pid = 0

    def acquire(self, timeout: float | EllipsisType | None = ...) -> bool:
        """Take the lock; return whether it was taken in time.

        Args:
            timeout: seconds to wait; 0: try once; None: for ever; by default as given to ``lock()``.

        Raises:
            LockHeldHere: this thread has it already, or this object is in use.
            InvalidLock: for a timeout that is none, or if the job holds too many locks.
            LeaseLost, JobCancelled: the job that waits was told to stop.
            redis.exceptions.RedisError: Redis cannot be reached. Should the lock have been taken all the
                same, it lapses with its TTL.
        """
        limit = self._timeout if timeout is ... else check_timeout(timeout)
        taken.enter(self)
        token = token_hex(16)
        self.run, self._pid, self.refused = active_run(), os.getpid(), None
        try:
            self._hold = self._take(token, inf if limit is None else limit)
        except BaseException as exc:
            taken.leave(self)
            if not isinstance(exc, RedisError):  # it may have been taken just when it was interrupted
                self._give_back(token)
            raise
        if self._hold is None:
            taken.leave(self)
        return self._hold is not None

    def release(self) -> None:
        """Release the lock, and wake the one who has waited for it longest.

        Raises:
            LockLost: it was not held any more, or never: another may have had it.
            redis.exceptions.RedisError: Redis cannot be reached. The lock lapses with its TTL.
        """
        hold = self._mine()
        held = hold.held
        self._let_go()
        if hold.lost or not self._send_release(held):
            raise LockLost(f"lock {self.name!r} (fence {held.fence}) was lost before it was released")

    def extend(self, ttl: float | None = None) -> None:
        """Renew the lock now. One round trip.

        Args:
            ttl: seconds from now, and from each renewal to come; None: as before.

        Raises:
            LockLost: another may have it.
            InvalidLock: for a TTL that is none.
        """
        hold = self._mine()
        if ttl is not None:
            self.ttl = check_ttl(ttl, lease_ttl=self.pulse.settings.lease_ttl, renew=self.renew)
        self._ask(hold)

    def check(self) -> None:
        """Raise if the lock is lost. No I/O; but if it was not renewed for a whole TTL, Redis is asked.

        Raises:
            LockLost: another may have it.
        """
        hold = self._mine()
        if hold.lost:
            self._lose(hold, "another has it, or has had it")
        if hold.age >= self.ttl:
            self._ask(hold)

    @property
    def held(self) -> bool:
        """Whether the lock is held: :meth:`check`, as a question."""
        try:
            self.check()
        except LockLost:
            return False
        return True

    @property
    def fence(self) -> int:
        """The number of this hold, higher than that of every hold before it.

        Raises:
            LockLost: it is not held.
        """
        return self._mine().held.fence

    def __enter__(self) -> Self:
        """Take the lock.

        Raises:
            LockTaken: it could not be had in time. The message says who has it.
            LockHeldHere, InvalidLock, redis.exceptions.RedisError: as :meth:`acquire`.
        """
        if not self.acquire():
            holder = self.refused.holder if self.refused else None
            who = f"it is held by {holder}" if holder else "another one is about to take it"
            raise LockTaken(f"lock {self.name!r} could not be had within {self._timeout:g} s: {who}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.release()
        except (LockLost, RedisError) as trouble:
            if exc is None:
                raise
            logger.warning("lock %r: %s", self.name, trouble)  # what has gone wrong before goes first

    def __repr__(self) -> str:
        return f"<Lock {self.name!r}>"

    def _take(self, token: str, limit: float) -> Hold | None:
        pulse, job = self.pulse, self.run.id if self.run else ""
        hold, baton, deadline = self._new_hold(), "", monotonic() + limit
        at = pulse.keys.lock(self.name)
        try:
            with closing(Waiting(pulse.store, at.wake, self.run)) as waiting:
                while True:
                    left, sent = deadline - monotonic(), monotonic()
                    patience = min(max(left, 0.0), _PATIENCE) if self.refused else 0.0
                    answer = patiently(partial(self._try, token, baton, left, job), patience)
                    if isinstance(answer, int):
                        hold.begin(Held(self.name, token, answer, self.ttl, sent, self._pid, job))
                        return hold
                    self.refused = answer
                    if left <= 0:
                        hold.end()
                        return None
                    baton = waiting.baton(min(answer.left, LOOK, left), left)
        except BaseException:
            hold.end()
            raise

    def _try(self, token: str, baton: str, left: float, job: str) -> int | Refusal:
        answer = acquire(
            self.pulse.store.client,
            self.pulse.keys,
            name=self.name,
            token=token,
            ttl=self.ttl,
            baton=baton,
            waits=left,
            job=job,
            lease_ttl=self.pulse.settings.lease_ttl,
        )
        assert answer is not None, "a token is used once"
        return answer

    def _new_hold(self) -> Hold:
        run, block = self.run, current_block()
        if self.renew and run is not None and block is not None:
            slot = run.slot
            if slot is not None and slot.pid == os.getpid():  # else it is a fork of the job
                return JobHold(block, slot, run.fence)
        return OwnHold(self.pulse.lock_keeper if self.renew else None)

    def _mine(self) -> Hold:
        if self._hold is None:
            raise LockLost(f"lock {self.name!r} is not held: it was not taken, was released, or was lost")
        if self._pid != os.getpid():
            raise LockLost(
                f"lock {self.name!r} is held by process {self._pid}: what is forked from it does not own it"
            )
        return self._hold

    def _ask(self, hold: Hold) -> None:
        settings, sent = self.pulse.settings, monotonic()
        held = hold.held._replace(ttl=self.ttl)
        try:
            word = renew(
                self.pulse.store.client, self.pulse.keys, held, lease_ttl=settings.lease_ttl, now=sent
            )
        except RedisError as exc:
            if hold.age < self.ttl:
                raise
            self._lose(hold, f"it was not renewed for {hold.age:.1f} s, as Redis cannot be reached: {exc}")
        if word != "RENEWED":
            self._lose(hold, f"Redis says {word}")
        hold.begin(held._replace(answered=sent))

    def _lose(self, hold: Hold, why: str) -> None:
        fence = hold.held.fence
        self._let_go()
        raise LockLost(f"lock {self.name!r} (fence {fence}) is lost: {why}; stop, and write nothing more")

    def _let_go(self) -> None:
        hold, self._hold = self._hold, None
        taken.leave(self)
        if hold is not None:
            hold.end()

    def _give_back(self, token: str) -> None:
        held = Held(self.name, token, 0, self.ttl, monotonic(), self._pid, "")
        with suppress(RedisError):
            self._send_release(held)

    def _send_release(self, held: Held) -> bool:
        pulse = self.pulse
        call = release_call(pulse.keys, held, lease_ttl=pulse.settings.lease_ttl, now=monotonic())
        return bool(run_all(pulse.store.client, [call])[0])


def let_go(run: JobRun) -> None:
    """Release the locks that the job has left behind: they end with it."""
    for lock in taken.of_run(run):
        try:
            lock.release()
        except LockLost as exc:
            logger.warning("job %s: %s", run.id, exc)
        except RedisError as exc:
            logger.warning(
                "job %s: its lock %r was not released (%s); it lapses in %g s",
                *(run.id, lock.name, exc, lock.ttl),
            )
