"""``JobTask``: the task class whose every task id is a job."""

from __future__ import annotations

import sys
from typing import Any, ClassVar
from uuid import uuid4

from celery import Task
from celery.canvas import _chain, group
from celery.exceptions import Ignore, Reject, Retry

from denyut.errors import MessageTooLarge
from denyut.tasks.attempt import active_attempt
from denyut.tasks.error_link import call_once
from denyut.tasks.locks.lock import let_go
from denyut.tasks.misfire import check_misfire
from denyut.tasks.reason import retries_spent
from denyut.tasks.replace import announce_replacement
from denyut.tasks.run import JobRun, activate
from denyut.tasks.runtime import check_max_runtime
from denyut.tasks.tracer import Tracer
from denyut.tasks.unique import check_uniqueness

__all__ = ["ACCUMULATE", "JobTask"]

#: The name of the task that ends a group which replaces another task.
ACCUMULATE = "denyut.accumulate"


class JobTask(Task):  # type: ignore[misc]
    """A task whose runs take effect once.

    Mixed into all tasks of an app by ``Denyut(app)``, or chosen with ``base=JobTask``.
    """

    abstract = True
    Request: ClassVar[str] = "denyut.tasks.request:JobRequest"
    Strategy: ClassVar[str] = "denyut.tasks.strategy:job_strategy"

    #: A template for the idempotency key over the parameter names, such as ``"order:{order_id}"``.
    idempotency_key: str | None = None

    #: Seconds after its enqueue for which a job's key answers at least (see ``denyut.tasks.unique``).
    unique_for: float | None = None

    #: The step of its job from which a key is free: ``start``, ``completed`` or ``retention``.
    unique_until: str | None = None

    #: A template for whose key it is, such as ``"{tenant}"``; None: everybody's.
    unique_scope: str | None = None

    #: What an enqueue does that finds its key taken: ``return``, ``raise``, ``replace`` or ``run_again``.
    on_conflict: str | None = None

    #: Seconds to remember a finished job and its key; None: the setting ``denyut_retention``.
    retention: float | None = None

    #: Seconds for which the lease of one attempt is renewed; None: the setting ``denyut_max_runtime``.
    max_runtime: float | None = None

    #: What becomes of a job of this task that is far too late: ``run`` or ``skip``; None: the setting.
    misfire: str | None = None

    #: How late (s) that is; None: the setting ``denyut_misfire_grace``.
    misfire_grace: float | None = None

    _tracer: Any = None

    def __init_subclass__(cls, **options: Any) -> None:
        """Refuse a task whose options cannot be meant. Raises ConfigurationError."""
        super().__init_subclass__(**options)
        check_misfire(cls)
        check_uniqueness(cls)
        check_max_runtime(cls)

    @property
    def __trace__(self) -> Any:
        """Celery's tracer of this task, with claim and settle around it."""
        return self._tracer

    @__trace__.setter
    def __trace__(self, inner: Any) -> None:
        self._tracer = None if inner is None else Tracer(self, inner)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the body: as the claimed attempt in a worker, else plainly."""
        attempt = active_attempt()
        if attempt is not None and not attempt.entered and attempt.run.id == self.request.id:
            return attempt.execute(lambda: self._body(args, kwargs))
        if attempt is not None:
            return call_once(attempt, self.name, lambda: self._body(args, kwargs))
        run = JobRun(id=self.request.id or str(uuid4()), task=self.name)
        with activate(run):
            try:
                return self._body(args, kwargs)
            finally:
                let_go(run)

    def replace(self, sig: Any) -> Any:
        """Put ``sig`` in this task's place: the same job, its next generation (see Celery)."""
        attempt = active_attempt()
        sig = self._gathered(sig)
        if attempt is not None and sig.subtask_type and attempt.run.id == self.request.id:
            announce_replacement(attempt.pulse, attempt.run.id, attempt.claim.fence)
        try:
            return super().replace(sig)
        except Ignore:
            if attempt is not None and not attempt.moved:
                attempt.replaced = True
            raise

    def retry(
        self,
        args: Any = None,
        kwargs: Any = None,
        exc: Any = None,
        throw: bool = True,
        eta: Any = None,
        countdown: Any = None,
        max_retries: Any = None,
        **options: Any,
    ) -> Any:
        """Try the job again later: the same job, its next generation (see Celery)."""
        attempt = active_attempt()
        if attempt is not None and attempt.run.id == self.request.id:
            attempt.cause = exc if isinstance(exc, BaseException) else sys.exc_info()[1]
        most = self.max_retries if max_retries is None else max_retries
        try:
            return super().retry(args, kwargs, exc, throw, eta, countdown, max_retries, **options)
        except Reject as unsent:
            if isinstance(
                unsent.reason, MessageTooLarge
            ):  # nor will it be sent another time: the job has failed
                raise unsent.reason from unsent
            raise
        except Retry:
            raise
        except Exception:
            if attempt is not None and most is not None and self.request.retries >= most:
                attempt.spent = retries_spent(self.request.retries, most)
            raise

    def _gathered(self, sig: Any) -> Any:
        """Give a group, or a chain that ends with one, a last step, which takes this task's id."""
        if isinstance(sig, group):
            return sig | self.app.tasks[ACCUMULATE].s(index=0)
        if isinstance(sig, _chain) and sig.tasks and isinstance(sig.tasks[-1], group):
            sig.tasks = [*sig.tasks[:-1], sig.tasks[-1] | self.app.tasks[ACCUMULATE].s(index=0)]
        return sig

    def add_to_chord(self, sig: Any, lazy: bool = False) -> Any:
        """Add ``sig`` to this task's chord (see Celery); the same part again if this job runs again."""
        attempt = active_attempt()
        if attempt is not None and not sig.subtask_type and attempt.run.id == self.request.id:
            # A retry adds another part; an attempt that follows a crash adds the same.
            with attempt.scope(f"added by {attempt.run.id} in retry {self.request.retries}"):
                sig.set(task_id=attempt.child_id())
        return super().add_to_chord(sig, lazy)

    def _body(self, args: Any, kwargs: Any) -> Any:
        following = super().__call__
        if self.request.called_directly or getattr(following, "__func__", None) is not Task.__call__:
            return following(*args, **kwargs)
        return self.run(*args, **kwargs)
