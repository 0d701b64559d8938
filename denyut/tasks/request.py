"""One message of a job in the worker's main process: receipt, lost child, time limit, revoke."""

from __future__ import annotations

import logging
import weakref
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from billiard.einfo import ExceptionWithTraceback
from billiard.exceptions import Terminated
from celery.exceptions import Ignore, Reject, Retry, TimeLimitExceeded, WorkerLostError
from celery.signals import task_retry, task_revoked
from celery.worker.request import Request
from celery.worker.state import task_ready

from denyut.errors import JobExited
from denyut.states import State
from denyut.tasks.aside import StepAside, Stopped
from denyut.tasks.cancel import Ended, end_from_outside
from denyut.tasks.envelope import Stamp
from denyut.tasks.finish import text_of
from denyut.tasks.forget import forget
from denyut.tasks.held import held
from denyut.tasks.leaving import leaving
from denyut.tasks.node import current_node
from denyut.tasks.over_limit import retry_over_limit
from denyut.tasks.recover import recover_lost_child
from denyut.tasks.telling import telling

__all__ = ["JobRequest"]

logger = logging.getLogger(__name__)

#: What Celery reports as an error of a delivery, and is no failure of its job.
_NO_FAILURES = (Ignore, Reject, Retry, Terminated)


class JobRequest(Request):  # type: ignore[misc]
    """Celery's request, which leaves to the job's record what the record must decide."""

    #: What became of its job when it was to end as FAILED from here; None before it was asked.
    _ended: Ended | None = None
    #: Whether it was retried from here, after its hard time limit; None before it was asked.
    _retried_here: bool | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Held until Celery drops the request: if this worker dies first, another publishes the job.
        held().add(self.id)
        weakref.finalize(self, held().discard, self.id)

    @property
    def _pulse(self) -> Any:
        return self.app.denyut

    def on_failure(self, exc_info: Any, send_failed_event: bool = True, return_ok: bool = False) -> Any:
        """Settle the message of a delivery that stepped aside, or hand over a lost child's job."""
        exc = exc_info.exception
        exc = exc.exc if isinstance(exc, ExceptionWithTraceback) else exc
        if isinstance(exc, StepAside):
            task_ready(self)
            return forget(self) if exc.keep else self.acknowledge()
        if isinstance(exc, Stopped):
            return self._on_stopped()
        if isinstance(exc, WorkerLostError | SystemExit | KeyboardInterrupt):
            return self._on_worker_lost(exc)
        if isinstance(exc, Reject) and exc.requeue and self.acknowledged:
            # Acknowledged early, so the broker has no copy to give back; the record has one.
            recover_lost_child(self._pulse, self.id, 0, Stamp.of(self._request_dict).gen)
        if isinstance(exc, TimeLimitExceeded) and self._retry(exc):
            return None
        # What Celery's tracer has not seen, as a result that cannot be sent to this process: the record
        # says whether that is how the job ends.
        if not (return_ok or isinstance(exc, _NO_FAILURES) or self._fail(exc)):
            return self._let_go()
        if isinstance(exc, MemoryError):  # the pool process ran out; by this word Celery would end this one
            exc_info.exception = JobExited("MemoryError", text_of(exc))
        with self._telling():
            return super().on_failure(exc_info, send_failed_event, return_ok)

    def on_timeout(self, soft: bool, timeout: float) -> Any:
        """Retry or fail the job at its hard time limit, unless another attempt has it by now."""
        if not soft and self._retry(TimeLimitExceeded(timeout)):
            return None
        if not soft and not self._fail(TimeLimitExceeded(timeout)):
            return self._let_go()
        with self._telling():
            return super().on_timeout(soft, timeout)

    def cancel(self, *args: Any, **kwargs: Any) -> Any:
        """End a running job that this worker must let go of: at a cold shutdown, or without its broker.

        It runs again elsewhere, and no crash is counted.
        """
        if self.time_start:
            leaving(self.id)
        return super().cancel(*args, **kwargs)

    def _fail(self, exc: BaseException) -> bool:
        """End the job as FAILED; False if another attempt runs it, or it has ended. May be asked twice."""
        if self._ended is None:
            self._ended = end_from_outside(
                self._pulse,
                self.id,
                State.FAILED,
                exc,
                retention=self.task.retention,
                running=True,
                owner=current_node().owner,
                pid=self.worker_pid,
                generation=Stamp.of(self._request_dict).gen,
                untold=self.task,
            )
        return self._ended.done or self._ended.found is None

    def _telling(self) -> AbstractContextManager[None]:
        """Return the context in which Celery is told of a job that was ended here."""
        ended = self._ended
        if ended is None or not ended.done:
            return nullcontext()
        owner, fence, digest = current_node().owner, ended.fence, ended.digest
        return telling(self._pulse, self.task, self.id, State.FAILED, fence=fence, digest=digest, owner=owner)

    def _retry(self, exc: Exception) -> bool:
        """Retry the job after its hard time limit; False if it is not to be. May be asked twice."""
        if self._retried_here is None:
            self._retried_here = self._ended is None and retry_over_limit(
                self._pulse,
                self.task,
                self.id,
                exc,
                owner=current_node().owner,
                pid=self.worker_pid,
                generation=Stamp.of(self._request_dict).gen,
            )
            if self._retried_here:
                self._tell_retried(exc)
        return self._retried_here

    def _tell_retried(self, exc: Exception) -> None:
        task_ready(self)
        self.acknowledge()  # the record has the message
        if not self.ignore_result:
            self.task.backend.mark_as_retry(self.id, exc, request=self._context)
        task_retry.send(sender=self.task, request=self._context, reason=exc, einfo=None)
        self.send_event("task-retried", exception=repr(exc), traceback="")

    def _let_go(self) -> None:
        task_ready(self)
        forget(self)

    def _on_worker_lost(self, exc: BaseException) -> None:
        task_ready(self)
        generation = Stamp.of(self._request_dict).gen
        moved = recover_lost_child(self._pulse, self.id, self.worker_pid, generation)
        if moved == "CANCELLED" or (moved == "NOTHING" and self._is_cancelled()):
            self._on_stopped()  # it was killed because it did not stop
            return
        logger.warning(
            "job %s: %s; %s", self.id, exc, "it is dead" if moved == "DEAD" else "it will run again"
        )
        # The record has the message: the broker's copy is not needed any more.
        self.acknowledge()
        event = "task-failed" if moved == "DEAD" else "task-retried"
        self.send_event(event, exception=repr(exc), traceback="")

    def _is_cancelled(self) -> bool:
        state = self._pulse.store.client.hget(self._pulse.keys.job(self.id).record, "state")
        return bool(state == State.CANCELLED.encode())

    def _on_stopped(self, *, terminated: bool = True, signum: Any = None) -> None:
        """Announce a job that is CANCELLED already as Celery announces one that was revoked."""
        task_ready(self)
        self.acknowledge()
        self._already_revoked = True
        told = {"terminated": terminated, "signum": signum, "expired": False}
        self.send_event("task-revoked", **told)
        task_revoked.send(sender=self.task, request=self._context, **told)

    def _announce_revoked(self, reason: str, terminated: bool, signum: Any, expired: bool) -> None:
        state = State.EXPIRED if expired else State.CANCELLED
        ended = end_from_outside(
            self._pulse, self.id, state, retention=self.task.retention, running=terminated
        )
        found = ended.found
        if ended.done or found is None:
            super()._announce_revoked(reason, terminated, signum, expired)
            return
        if found == State.CANCELLED:  # ended while it waited; its message comes here to be announced
            self._on_stopped(terminated=terminated, signum=signum)
            return
        # A copy of a message whose job has ended, or runs elsewhere: that is not for this copy to end.
        logger.info("job %s: %s, but it is %s already", self.id, reason, found)
        self._already_revoked = True
        self._let_go()
