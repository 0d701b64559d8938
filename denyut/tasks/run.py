"""The running job, seen from inside: ``current_job()``."""

from __future__ import annotations

import json
import sys
from collections.abc import Sized
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, cast

from denyut.errors import JobCancelled, JobInterrupt, LeaseLost, NoCurrentJob
from denyut.tasks.locks.taken import of_run
from denyut.tasks.slots import CANCEL, LOST, UNLOCKED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from denyut.app import Denyut
    from denyut.tasks.effects import Committed
    from denyut.tasks.slot import Slot

__all__ = ["JobRun", "activate", "active_run", "current_job"]

T = TypeVar("T")

#: How far back the causes of an error are followed.
_DEEPEST = 20

_active: ContextVar[JobRun | None] = ContextVar("denyut_job", default=None)


@dataclass(slots=True, kw_only=True)
class JobRun:
    """One attempt of a job, as its task sees it.

    ``id``: the task id. ``attempt``: from 1. ``fence``: of this attempt; 0 when the task runs
    without a worker (called directly, or eagerly). ``crashes``: lost workers so far.
    ``checkpoint_data``: what the last :meth:`checkpoint` of any attempt kept, None if none did.
    """

    id: str
    task: str
    attempt: int = 1
    fence: int = 0
    crashes: int = 0
    checkpoint_data: Any = None
    #: The slot that the heartbeat reads; None without a worker.
    slot: Slot | None = None
    #: What the body was told, once it was told to stop.
    interrupt: JobInterrupt | None = None
    #: Writes a checkpoint; returns False if the lease is lost.
    save: Callable[[str], bool] = field(default=lambda _: True, repr=False)
    #: Where the record is; None without a worker.
    pulse: Denyut | None = field(default=None, repr=False)
    #: What is known of the steps done :meth:`once`, and of the effects that this attempt has committed.
    steps: dict[str, str] = field(default_factory=dict, repr=False)
    commits: set[str] = field(default_factory=set, repr=False)

    def progress(self, done: float, total: float | None = None, *, unit: str | None = None) -> None:
        """Tell how far the job got. A plain memory store: call it as often as you like.

        Args:
            done: how much is done, in ``unit``.
            total: how much there is; None if unknown.
            unit: such as ``rows`` or ``bytes`` (16 bytes at most).

        Raises:
            LeaseLost: another attempt may have begun; stop working.
            JobCancelled: the job was cancelled.
            LockLost: another may have a lock that this job has not released.
        """
        slot = self.slot
        if slot is None:
            return
        if unit is not None:
            slot.unit(unit)
        slot.progress(done, total)
        if slot.flags:
            self.heed()

    def stage(self, name: str) -> None:
        """Tell what the job is doing now, such as ``COMPUTING`` (64 bytes at most). No I/O."""
        if self.slot is not None:
            self.slot.stage(name)
            if self.slot.flags:
                self.heed()

    def track(
        self, iterable: Iterable[T], total: float | None = None, *, start: float = 0, unit: str | None = None
    ) -> Iterator[T]:
        """Yield the items of ``iterable``, telling the progress after each.

        Args:
            iterable: what to work through.
            total: number of items; by default its length if it has one, plus ``start``.
            start: how many items were done before (after a resume).
            unit: as for :meth:`progress`.
        """
        if total is None and isinstance(iterable, Sized):
            total = start + len(iterable)
        done = start
        self.progress(done, total, unit=unit)
        progress = self.progress
        for item in iterable:
            yield item
            done += 1
            progress(done, total)

    def checkpoint(self, data: Any) -> None:
        """Keep ``data`` durably: if this attempt dies, the next one finds it in ``checkpoint_data``.

        One round trip to Redis. Do the work that it stands for first.

        Args:
            data: anything that JSON can hold.

        Raises:
            LeaseLost: another attempt owns the job; nothing was kept.
            TypeError, ValueError: if JSON cannot hold it.
        """
        text = json.dumps(data, allow_nan=False)
        if not self.save(text):
            raise LeaseLost(
                f"job {self.id}: attempt {self.attempt} lost its lease; its checkpoint was refused"
            )
        self.checkpoint_data = json.loads(text)

    def once(self, step: str, function: Callable[[], T]) -> T:
        """Do a step that a later attempt of this job skips; return what ``function()`` returned.

        One round trip to Redis after the step; in later attempts one before it, too. The step and the
        note of it are two things: a worker that dies between them leaves no note, and the step is done
        again. So it is at least once across a crash at that very moment, and once otherwise. For an
        effect in a SQL database :meth:`commit` is exact; for one elsewhere, give it
        ``job.id`` as the idempotency key that the other side asks for.

        Args:
            step: its name in this job (1 to 200 bytes). At most 1000 steps a job.
            function: does it. What it returns must fit into JSON (64 KiB at most), and comes back as
                JSON gives it: a tuple is a list.

        Raises:
            LeaseLost: another attempt owns the job; nothing was kept.
            TypeError, ValueError: for a bad name, a value that JSON cannot hold, or too much of it.
        """
        from denyut.tasks.once import once

        self.check()
        return cast("T", once(self, step, function))

    def committed(self, session: Any, *, step: str = "") -> Committed | None:
        """Return what an earlier attempt of this job has committed with :meth:`commit`, None if nothing.

        Args:
            session: a ``Session`` or ``Connection`` of SQLAlchemy.
            step: as for :meth:`commit`.

        Raises:
            ConfigurationError: if the table ``denyut_effects`` is not there.
        """
        from denyut.tasks.effects import find

        return find(self, session, step)

    def commit(self, session: Any, result: Any = None, *, step: str = "") -> Any:
        """Commit the transaction of ``session`` as the effect of this job, once, and return its result.

        The fact that the job took effect is a row of the same transaction (table ``denyut_effects``,
        see :func:`denyut.tasks.effects.create_effects_table`). If another attempt of this job has
        committed, this transaction is rolled back and the result of *that* one is returned. So
        ``return job.commit(session, result)`` is right in every attempt, and a crash after it loses
        nothing. It must be the last that is done in the transaction.

        Costs one INSERT, and one round trip to Redis that makes sure that this attempt owns the job.

        Args:
            session: a ``Session`` or ``Connection`` of SQLAlchemy on PostgreSQL or SQLite.
            result: what the job gives; anything that Celery's JSON can hold.
            step: a name (100 characters at most) if the job has more than one effect.

        Raises:
            LeaseLost: another attempt owns the job. Rolled back.
            JobCancelled: the job was cancelled. Rolled back.
            AlreadyCommitted: this very attempt has committed this step before.
            ConfigurationError: if the table is not there. Rolled back.
            sqlalchemy.exc.SQLAlchemyError: what the database says.
        """
        from denyut.tasks.effects import commit

        return commit(self, session, result, step)

    def check(self) -> None:
        """Raise if this attempt should stop.

        Raises:
            LeaseLost: another attempt may have begun.
            JobCancelled: the job was cancelled.
            LockLost: another may have a lock (``app.denyut.lock()``) that this job has not released.
        """
        told = self.told_to_stop()
        if told is not None:
            self.interrupt = told
            raise told
        if self.slot is not None and self.slot.flags & UNLOCKED:
            self._check_locks()

    def told_to_stop(self) -> JobInterrupt | None:
        """Return what this attempt is to raise, as the heartbeat has flagged it; None if it may go on."""
        flags = self.slot.flags if self.slot is not None else 0
        if flags & LOST:
            return LeaseLost(f"job {self.id}: attempt {self.attempt} (fence {self.fence}) lost its lease")
        return JobCancelled(f"job {self.id} was cancelled") if flags & CANCEL else None

    def _check_locks(self) -> None:
        for lock in of_run(self):
            lock.check()

    def heed(self) -> None:
        """As :meth:`check`, but let the body clean up: not while it handles what it was told already.

        Raises:
            LeaseLost, JobCancelled, LockLost: as :meth:`check`.
        """
        if self.interrupt is None or not _is_handled(self.interrupt):
            self.check()


def current_job() -> JobRun:
    """Return the job that this code runs in.

    Raises:
        NoCurrentJob: outside a task that is a job.
    """
    run = _active.get()
    if run is None:
        raise NoCurrentJob(
            "current_job() was called outside a running job; call it in a task of an app that has Denyut(app)"
        )
    return run


def active_run() -> JobRun | None:
    """Return the running job, or None."""
    return _active.get()


@contextmanager
def activate(run: JobRun) -> Iterator[None]:
    """Make ``run`` the current job inside the ``with`` block."""
    token = _active.set(run)
    try:
        yield
    finally:
        _active.reset(token)


def _is_handled(interrupt: BaseException) -> bool:
    """Return whether the calling code runs in an ``except`` or ``finally`` that ``interrupt`` has led to."""
    exc = sys.exc_info()[1]
    for _ in range(_DEEPEST):
        if exc is None or exc is interrupt:
            break
        exc = exc.__context__
    return exc is interrupt
