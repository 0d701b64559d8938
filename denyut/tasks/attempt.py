"""One attempt, from the worker's side: runs the body and writes how it ended, before Celery tells anybody.

The order is the promise: the record decides (guarded by the fence), then Celery sends callbacks,
stores the result and acknowledges, then the job is settled. An attempt that lost its lease changes
nothing and steps aside.
"""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import NAMESPACE_OID, uuid4, uuid5

from celery import states
from celery.exceptions import Ignore, Reject, Retry
from redis.exceptions import RedisError

from denyut.errors import JobCancelled, LeaseLost
from denyut.states import State
from denyut.tasks.aside import StepAside, Stopped
from denyut.tasks.ending import TERMINATED, told_to_end, worker_ends
from denyut.tasks.failure import as_failure, failure_of
from denyut.tasks.finish import Outcome, finish, requeue, settle
from denyut.tasks.interrupt import interruptibly
from denyut.tasks.reason import not_retried
from denyut.tasks.result import encode_result
from denyut.tasks.tell import cancelled_why, tell_cancelled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from denyut.app import Denyut
    from denyut.tasks.backend import StoredResult
    from denyut.tasks.claim import Claim
    from denyut.tasks.run import JobRun
from denyut.tasks.told import last_told

T = TypeVar("T")

__all__ = ["Attempt", "activate_attempt", "active_attempt"]

logger = logging.getLogger(__name__)

_active: ContextVar[Attempt | None] = ContextVar("denyut_attempt", default=None)


@dataclass(slots=True, kw_only=True)
class Attempt:
    """A claimed attempt.

    ``instead`` stands for the body where that must not run: another job's outcome, a conflict, or
    (with ``ended`` set from the start) the outcome that an earlier attempt has written already.
    """

    pulse: Denyut
    task: Any
    queue: str
    claim: Claim
    run: JobRun
    retention: float
    #: Whether Celery has anything to send after a completed body: callbacks, chain, chord part.
    sends: bool = True
    #: Whether Celery has a result to store.
    stores: bool = True
    #: Whether Celery has anything to do after a failure.
    tells: bool = True
    instead: Callable[[], Any] | None = None
    entered: bool = False
    #: The next generation of this job was published or scheduled: a retry or a replacement.
    moved: bool = False
    #: ``replace()`` was called; the message of the replacement comes later (a chord's body).
    replaced: bool = False
    #: Why the next generation could not be recorded.
    broken: Exception | None = None
    #: The error that a retry is for.
    cause: BaseException | None = None
    #: Why it is over if it fails: the task asked for a retry and there is none left, or it does not run.
    spent: str = ""
    ended: State | None = None
    settled: bool = False
    #: The result was stored by the script that ended the job.
    stored: bool = False
    #: The chord (its group's id) whose body is being sent.
    chord: str | None = None
    #: It had completed, but what the record has of its result cannot be decoded.
    unreadable: bool = False
    #: Writes again what Redis has lost of this attempt; False if it has lost its job.
    restore: Callable[[], bool] = field(default=lambda: False, repr=False)
    _scopes: list[str] = field(default_factory=list)
    _children: dict[str, Iterator[int]] = field(default_factory=lambda: defaultdict(count))

    @property
    def continuing(self) -> bool:
        """Whether the body is over, so that what is sent now is its continuation."""
        return self.ended is not None

    def child_id(self) -> str:
        """Return the id of the next continuation: the same at every replay (RFC 4122 UUID 5).

        It is drawn from the scope and the position in it; the outermost scope is the job.
        """
        scope = self._scopes[-1] if self._scopes else self.run.id
        return str(uuid5(NAMESPACE_OID, f"{scope}/{next(self._children[scope])}"))

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Draw ids from the scope ``name`` inside the ``with`` block; scopes may be nested."""
        self._scopes.append(f"{self._scopes[-1]}/{name}" if self._scopes else name)
        try:
            yield
        finally:
            self._scopes.pop()

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes that this code runs in, the outermost first."""
        return tuple(self._scopes)

    def execute(self, body: Callable[[], Any]) -> Any:
        """Run ``body`` (or give the replayed outcome) and write how it ended.

        Raises:
            StepAside: the lease was lost; nothing was written.
            Stopped: the job was cancelled, and Celery has been told.
            Exception: what the body raised; JobExited for what is no ``Exception``.
            BaseException: the worker ends; nothing was written, and the job runs again.
        """
        self.entered = True
        if self.ended is not None and self.instead is not None:
            return self._again(self.instead)
        before = told_to_end()
        try:
            value = interruptibly(self.run, self.instead or body)
            outcome, stored = self._completed(value), self._stored(value)
        except (Retry, Ignore, Reject) as exc:
            self._gave_way(exc)
            raise
        except LeaseLost as exc:
            raise self._lost(exc) from exc
        except JobCancelled as exc:
            raise self._cancelled(exc) from exc
        except BaseException as exc:
            if not worker_ends(exc, before=before):
                self.fail(failure := as_failure(exc))
                if failure is not exc:
                    raise failure from exc
            elif isinstance(exc, Exception):  # an error of its cleanup: nobody must take it for the outcome
                raise SystemExit(TERMINATED) from exc
            raise
        self._write(outcome, stored)
        return value

    def guarded(self, write: Callable[[], T], refused: T) -> T:
        """Return the answer of ``write``, which only the owner of the job may do.

        If it is refused because Redis has lost this attempt, that is restored, and it is done again.

        Args:
            write: does it; may be called twice.
            refused: the answer that refuses it.
        """
        answer = write()
        return write() if answer == refused and self.restore() else answer

    def fail(self, exc: Exception) -> None:
        """Write that this attempt failed because of ``exc``.

        Raises:
            StepAside: the lease was lost; nothing was written.
        """
        self._write(failure_of(self.task, State.FAILED, exc))

    def conclude(self, state: str, exc: BaseException | None) -> None:
        """Write how it ended where Celery never reached the body: a hook before it raised ``exc``.

        Args:
            state: what Celery made of it.
            exc: the error.

        Raises:
            StepAside: the lease was lost; nothing was written.
        """
        if self.entered or self.moved or self.ended is not None or isinstance(exc, StepAside):
            return
        if state in (states.IGNORED, states.REJECTED):
            self._gave_way(exc if exc is not None else Ignore())
        elif state == states.FAILURE and exc is not None:
            self.fail(as_failure(exc))
        elif state == states.SUCCESS:  # Celery found a result of an earlier run, of which the record is lost
            self._write(self._completed(self.task.backend.get_result(self.run.id)))

    def close(self, *, delivered: bool) -> None:
        """Settle the job after Celery has done its steps; ``delivered`` says whether it could."""
        if self.ended is None or self.settled or not delivered:
            return
        fence, digest = self.claim.fence, self.claim.digest
        try:
            self.settled = settle(
                self.pulse,
                self.run.id,
                fence,
                digest=digest,
                retention=self.retention,
                completed=self.ended == State.COMPLETED,
            )
        except RedisError:
            # Unsettled, it is replayed when Redis is back: what follows it has ids of its own, and is
            # not sent twice.
            logger.exception("job %s: Redis cannot be reached, so it was not settled", self.run.id)

    def _completed(self, value: Any) -> Outcome:
        prepared = self.task.backend.prepare_value(value)
        serializer = self.pulse.app.conf.result_serializer
        return Outcome(state=State.COMPLETED, result=encode_result(prepared, serializer))

    def _stored(self, value: Any) -> StoredResult | None:
        """Return the result for the script to store, if it is all that Celery has left to do."""
        if self.sends or not self.stores or self.moved:
            return None
        from denyut.tasks.backend import prepare_result

        return prepare_result(self.pulse, self.task, self.run.id, value)

    def _again(self, outcome: Callable[[], Any]) -> Any:
        try:
            return outcome()
        except JobCancelled as exc:
            raise self._told_cancelled(exc) from exc
        except Exception:
            # A stored result that cannot be read will not be read by any other replay either.
            self.unreadable = self.ended == State.COMPLETED
            raise

    def _write(self, outcome: Outcome, stored: StoredResult | None = None) -> None:
        if self.moved:
            raise StepAside(f"job {self.run.id} goes on as its next generation")
        settled = self._is_the_last_step(outcome.state, stored)
        try:
            ok = self.guarded(
                lambda: finish(
                    self.pulse,
                    self.run.id,
                    self.claim.fence,
                    outcome,
                    digest=self.claim.digest,
                    retention=self.retention,
                    settled=settled,
                    stored=stored,
                    reason=self._reason(outcome),
                    telemetry=last_told(self.run.slot),
                ),
                refused=False,
            )
        except RedisError as exc:
            raise self._unwritten(outcome.state, exc) from exc
        if not ok:
            raise self._lost(outcome.state)
        self.ended, self.settled, self.stored = outcome.state, settled, stored is not None

    def _is_the_last_step(self, state: State, stored: StoredResult | None) -> bool:
        """Whether nothing is left for Celery to do."""
        if state == State.COMPLETED:
            return not self.sends and (stored is not None or not self.stores)
        return state in (State.IGNORED, State.REJECTED) or not self.tells

    def _reason(self, outcome: Outcome) -> str:
        if outcome.state != State.FAILED:
            return ""
        return self.spent or not_retried(outcome.error, self.task.request.retries or 0)

    def _cancelled(self, exc: JobCancelled) -> Exception:
        reason = cancelled_why(self.pulse, self.run.id) or str(exc)
        self._write(Outcome.of_error(State.CANCELLED, JobCancelled(reason)))
        return self._told_cancelled(exc, reason)

    def _told_cancelled(self, exc: JobCancelled, reason: str | None = None) -> Exception:
        """Tell Celery in place of its tracer, which knows no task that is revoked while it runs."""
        text = reason or cancelled_why(self.pulse, self.run.id) or str(exc)
        try:
            tell_cancelled(self.pulse, self.task, self.run.id, self.task.request, text)
        except Exception:  # whatever a backend or an error link raises: the job is cancelled all the same
            logger.exception("job %s: it is cancelled, but Celery could not be told now", self.run.id)
            self.ended = None  # unsettled: recovery tells when the lease is over
            return StepAside("Celery could not be told that it was cancelled")
        return Stopped(text)

    def _gave_way(self, exc: BaseException) -> None:
        if self.moved:
            return
        if self.broken is not None:  # Celery makes a Reject of a retry that could not be sent
            raise self._unwritten("retry", self.broken) from exc
        if self.replaced:
            self._next_generation("replace")
        elif isinstance(exc, Reject) and exc.requeue:
            self._next_generation("requeue")
        else:
            state = State.REJECTED if isinstance(exc, Reject) else State.IGNORED
            self._write(Outcome(state=state, error=json.dumps([type(exc).__name__, str(exc)[:1000]])))

    def _next_generation(self, what: str) -> None:
        token = uuid4().hex
        name, queue, fence = self.task.name, self.queue, self.claim.fence
        reply = self.guarded(
            lambda: requeue(self.pulse, self.run.id, fence, what, task=name, queue=queue, token=token),
            refused=[b"LOST"],
        )
        if reply[0] == b"LOST":
            raise self._lost(what)
        if reply[0] == b"CANCELLED":
            raise self._cancelled(JobCancelled(f"job {self.run.id} was cancelled"))
        self.moved = True

    def _unwritten(self, what: object, exc: Exception) -> StepAside:
        logger.error("job %s: %s could not be written (%s); it will run again", self.run.id, what, exc)
        return StepAside(f"Redis cannot be reached: {exc}", keep=True)

    def _lost(self, what: object) -> StepAside:
        logger.warning(
            "job %s: attempt %d (fence %d) lost its lease, its outcome (%s) was dropped",
            self.run.id,
            self.run.attempt,
            self.claim.fence,
            what,
        )
        return StepAside(f"attempt {self.run.attempt} of job {self.run.id} lost its lease", keep=True)


def active_attempt() -> Attempt | None:
    """Return the attempt that this code runs in, or None."""
    return _active.get()


@contextmanager
def activate_attempt(attempt: Attempt) -> Iterator[None]:
    """Make ``attempt`` the active one inside the ``with`` block."""
    token = _active.set(attempt)
    try:
        yield
    finally:
        _active.reset(token)
