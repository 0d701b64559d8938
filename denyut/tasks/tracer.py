"""Claim, trace, settle: what stands around Celery's own tracer for every delivery of a job."""

from __future__ import annotations

import json
import logging
import os
from functools import cache
from typing import TYPE_CHECKING, Any

from billiard import current_process
from billiard.einfo import ExceptionInfo, ExceptionWithTraceback
from celery import Task
from celery.app.trace import TraceInfo, trace_ok_t
from celery.states import FAILURE, IGNORED, SUCCESS
from kombu.exceptions import EncodeError
from redis.exceptions import RedisError

from denyut.errors import (
    IdempotencyConflict,
    InvalidKey,
    InvalidUniqueness,
    JobDead,
    JobExists,
    JobExited,
    LeaseLost,
    Unfingerprintable,
)
from denyut.states import State
from denyut.tasks.aside import StepAside
from denyut.tasks.attempt import Attempt, activate_attempt
from denyut.tasks.cancel import end_from_outside
from denyut.tasks.chord_part import is_chord_waiting
from denyut.tasks.claim import Claim, Code, Key, claim
from denyut.tasks.ending import told_to_end, worker_ends
from denyut.tasks.envelope import ETA_HEADER, Stamp, rebuild
from denyut.tasks.failure import as_failure, tell_failure
from denyut.tasks.finish import save_checkpoint
from denyut.tasks.follow import Followed, follow
from denyut.tasks.key import check_id, check_key
from denyut.tasks.keying import KEY_HEADER, key_of_message, release_key
from denyut.tasks.locks.lock import let_go
from denyut.tasks.node import current_node
from denyut.tasks.recover import recover
from denyut.tasks.replay import outcome_of, raising
from denyut.tasks.restore import restore
from denyut.tasks.run import JobRun, activate
from denyut.tasks.runtime import max_runtime_of
from denyut.tasks.slots import current_block
from denyut.tasks.telling import telling

if TYPE_CHECKING:
    from collections.abc import Mapping

    from denyut.tasks.job_task import JobTask
    from denyut.tasks.slot import Slot

__all__ = ["Tracer"]

logger = logging.getLogger(__name__)


#: Errors of a continuation (a callback that cannot be encoded, say) that every replay would meet again:
#: Celery has told them as the job's failure.
_NEVER = (EncodeError, TypeError, ValueError, LookupError, AttributeError)


class Tracer:
    """Wraps the tracer that Celery built for one task.

    Args:
        task: the task.
        inner: Celery's tracer: ``inner(uuid, args, kwargs, request) -> trace_ok_t``.
    """

    def __init__(self, task: JobTask, inner: Any) -> None:
        self.task = task
        self.inner = inner

    def __call__(self, uuid: str, args: Any, kwargs: Any, request: dict[str, Any] | None = None) -> Any:
        """Run one delivery. A delivery that must not run gives no signal, result or callback."""
        request = request if request is not None else {}
        if request.get("eta") is None and request.get(ETA_HEADER):
            request["eta"] = request[ETA_HEADER]  # what the task sees is what its caller said
        delivery = _Delivery(self.task, uuid, args, kwargs, request)
        try:
            answer = delivery.claim()
        except RedisError as exc:
            logger.exception("job %s: Redis cannot be reached, so it was not run", uuid)
            return _aside(StepAside(f"Redis cannot be reached: {exc}", keep=True))
        except Exception as exc:  # noqa: BLE001 - nobody else would tell the caller
            return self._refuse(delivery, exc)
        if isinstance(answer, StepAside):
            logger.info("job %s: this delivery steps aside: %s", uuid, answer.reason)
            return _aside(answer)
        traced = self._run(answer, uuid, args, kwargs, request)
        if delivery.pulse.keys.stored:
            delivery.pulse.saving.wrote(uuid)
        return traced

    def _run(self, attempt: Attempt, uuid: str, args: Any, kwargs: Any, request: dict[str, Any]) -> Any:
        slot = attempt.run.slot
        before = told_to_end()
        try:
            with activate_attempt(attempt), activate(attempt.run):
                try:
                    traced = self.inner(uuid, args, kwargs, request)
                except LeaseLost as exc:  # after the body: another attempt sends the continuation by now
                    raise StepAside(str(exc), keep=True) from exc
                except BaseException as exc:
                    if isinstance(exc, Exception) or worker_ends(exc, before=before):
                        raise
                    traced = self._left(attempt, exc, request)
                return self._close(attempt, traced, request)
        except StepAside as exc:
            return _aside(exc)
        finally:
            let_go(attempt.run)
            # A process that was told to end leaves its job in the slot: its death hands the job over.
            if slot is not None and (before or not told_to_end()):
                slot.end()
                if (block := current_block()) is not None:
                    block.give(slot)

    def _close(self, attempt: Attempt, traced: Any, request: dict[str, Any]) -> Any:
        """Settle the job after Celery has done its steps."""
        info = traced.info
        if info is None and isinstance(traced.retval, ExceptionInfo):  # it told nobody
            exc = traced.retval.exception
            exc = exc.exc if isinstance(exc, ExceptionWithTraceback) else exc
            info, traced = TraceInfo(FAILURE, exc), tell_failure(self.task, request, exc)
        attempt.conclude(info.state if info else SUCCESS, info.retval if info else None)
        attempt.close(delivered=self._delivered(attempt, info, request))
        return traced

    def _left(self, attempt: Attempt, exc: BaseException, request: dict[str, Any]) -> Any:
        """Catch what one of Celery's hooks or signal handlers raised, and what is no ``Exception``."""
        logger.error("job %s: a hook around the task raised %r", attempt.run.id, exc, exc_info=exc)
        failure = as_failure(exc)
        if attempt.ended is None and not attempt.entered:
            return tell_failure(self.task, request, failure)
        try:
            raise failure
        except JobExited:
            return trace_ok_t(ExceptionInfo(internal=True), TraceInfo(IGNORED, failure), 0.0, None)

    def _refuse(self, delivery: _Delivery, exc: Exception) -> Any:
        """Fail a job that cannot even begin: its record, or its message, is not as it should be."""
        logger.error("job %s: cannot be run: %s", delivery.id, exc, exc_info=exc)
        if isinstance(exc, InvalidKey):  # of an id that is none there is no record
            return tell_failure(self.task, delivery.request, exc)
        node = current_node()
        ended = end_from_outside(
            delivery.pulse,
            delivery.id,
            State.FAILED,
            exc,
            retention=self.task.retention,
            running=True,
            owner=node.owner,
            pid=os.getpid(),
            generation=delivery.stamp.gen,
            untold=self.task,
        )
        if not ended.done:
            if ended.found is not None:
                return _aside(StepAside(f"cannot be run here: {exc}", keep=True))
            return tell_failure(self.task, delivery.request, exc)
        fence, digest, owner = ended.fence, ended.digest, node.owner
        with telling(
            delivery.pulse, self.task, delivery.id, State.FAILED, fence=fence, digest=digest, owner=owner
        ):
            return tell_failure(self.task, delivery.request, exc)

    def _delivered(self, attempt: Attempt, info: Any, request: dict[str, Any]) -> bool:
        """Whether Celery has sent the continuation, or never can. If not, recovery has it replayed."""
        failed = info is not None and attempt.ended == State.COMPLETED and not attempt.unreadable
        if failed and not isinstance(info.retval, _NEVER):
            logger.error("job %s: its continuation was not sent: %r", attempt.run.id, info.retval)
            return False
        if attempt.claim.code not in (Code.REPLAY, Code.DEAD):
            return True
        try:
            return not is_chord_waiting(self.task.backend, request)
        except RedisError as exc:
            logger.warning("job %s: its chord cannot be asked: %r; trying again", attempt.run.id, exc)
            return False


class _Delivery:
    """One delivery of a message, up to the decision whether to run it."""

    def __init__(self, task: JobTask, uuid: str, args: Any, kwargs: Any, request: dict[str, Any]) -> None:
        self.task = task
        self.pulse = task.app.denyut
        self.id = uuid
        self.request = request
        self.request.setdefault("args", args)
        self.request.setdefault("kwargs", kwargs)
        self.stamp = Stamp.of(request)
        #: Why the body must not run, if its key is none.
        self.refused: Exception | None = None
        info = request.get("delivery_info") or {}
        self.queue = info.get("routing_key") or self.pulse.app.conf.task_default_queue

    def claim(self) -> Attempt | StepAside:
        """Ask the record; return the attempt to run, or why not.

        Raises:
            InvalidKey: for an id of a plain client that no job can have.
        """
        check_id(self.id)
        self.refused = self._invalid_key()
        answer = self._ask(own=False)
        if answer.code == Code.FOLLOW:
            followed = follow(self.pulse, self.id, answer.detail, self.stamp, after=answer.after)
            if followed is None:
                return StepAside(f"waits for job {answer.detail}, which holds its key")
            answer = self._ask(own=True)
            if answer.code == Code.CLAIMED:
                self._begin_key(answer)
                return self._attempt(answer, followed)
        if answer.code in (Code.CLAIMED, Code.REPLAY, Code.DEAD, Code.CONFLICT):
            self._begin_key(answer)
            return self._attempt(answer, None)
        if answer.code == Code.SUSPECT:
            recover(self.pulse, self.id, "lapsed")
            return StepAside("it waits for its turn to run alone", keep=True)
        return StepAside(f"{answer.code} {answer.detail}", keep=answer.code == Code.BUSY)

    def _begin_key(self, answer: Claim) -> None:
        """Release the key of a job that has it only until it starts."""
        if (
            self.request.get("unique_until") != "start"
            or answer.code != Code.CLAIMED
            or answer.digest is None
        ):
            return
        try:
            release_key(self.pulse, self.id, answer.digest, "start")
        except RedisError as exc:
            logger.warning("job %s: its key is released at its end only: %r", self.id, exc)

    def _ask(self, *, own: bool) -> Claim:
        return claim(
            self.pulse,
            self.id,
            task=self.task.name,
            queue=self.queue,
            stamp=self.stamp,
            pid=os.getpid(),
            message=self._message,
            own=own,
            retention=self.task.retention,
        )

    def _message(self) -> tuple[str, Key]:
        app = self.pulse.app
        envelope = rebuild(app, self.task.serializer or app.conf.task_serializer, self.request)
        text = envelope.dump()
        if self.refused is not None:
            return text, Key()
        try:
            return text, key_of_message(self.pulse, self.task, self.id, self.request)
        except (Unfingerprintable, InvalidUniqueness) as exc:
            self.refused = exc
            return text, Key()

    def _invalid_key(self) -> InvalidKey | None:
        """Return why no job can have the key of this message, as only a plain client can send one."""
        given = self.request.get(KEY_HEADER)
        try:
            if given is not None:
                check_key(given)
        except InvalidKey as exc:
            return exc
        return None

    def _restore(self, answer: Claim, retention: float) -> bool:
        return restore(
            self.pulse,
            self.id,
            answer,
            generation=self.stamp.gen,
            task=self.task.name,
            queue=self.queue,
            message=self._message,
            retention=retention,
        )

    def _attempt(self, answer: Claim, followed: Followed | None) -> Attempt:
        run = JobRun(
            id=self.id,
            task=self.task.name,
            attempt=answer.attempt,
            fence=answer.fence,
            crashes=answer.crashes,
            checkpoint_data=json.loads(answer.checkpoint) if answer.checkpoint else None,
            slot=_slot(self, answer),
            pulse=self.pulse,
        )
        retention = self.task.retention or self.pulse.settings.retention
        sends, stores, tells = _left_to_do(self.task, self.request)
        attempt = Attempt(
            pulse=self.pulse,
            task=self.task,
            queue=self.queue,
            claim=answer,
            run=run,
            retention=retention,
            sends=sends,
            stores=stores,
            tells=tells,
        )
        attempt.restore = lambda: self._restore(answer, retention)
        run.save = lambda text: attempt.guarded(
            lambda: save_checkpoint(self.pulse, self.id, answer.fence, text, retention=retention),
            refused=False,
        )
        _instead(attempt, answer, followed, self.request)
        if self.refused is not None and answer.code == Code.CLAIMED:
            attempt.instead = raising(self.refused)
        return attempt


def _instead(attempt: Attempt, answer: Claim, followed: Followed | None, request: Mapping[str, Any]) -> None:
    """Set what stands for the body, where that must not run (again)."""
    task, job_id = attempt.task, attempt.run.id
    if answer.code == Code.DEAD:
        attempt.ended = State.DEAD
        attempt.instead = raising(JobDead(f"job {job_id} lost {answer.crashes} workers; it is dead"))
    elif answer.code == Code.REPLAY:
        attempt.ended = State(answer.detail)
        attempt.instead = outcome_of(task, job_id, attempt.ended, answer.result, answer.exception)
    elif answer.code == Code.CONFLICT:
        refused = (request.get("on_conflict") or task.on_conflict) == "raise"
        kind = JobExists if refused else IdempotencyConflict
        attempt.instead = raising(kind(str(request.get(KEY_HEADER) or ""), task.name, answer.detail))
        what = "and on_conflict is 'raise'" if refused else "which has other arguments"
        attempt.spent = f"not run: its key belongs to job {answer.detail}, {what}"
    elif followed is not None and followed.state is not None:
        attempt.instead = outcome_of(task, followed.id, followed.state, followed.result, followed.exception)
        attempt.spent = f"not run: it takes over the end of job {followed.id}, which has its key"


def _slot(delivery: _Delivery, answer: Claim) -> Slot | None:
    block = current_block()
    if block is None:  # not in a worker
        return None
    # In the main process (threads, gevent, eventlet, solo) many may run at once.
    pooled = os.getpid() != current_node().pid
    slot = block.slot(getattr(current_process(), "index", 0) or 0) if pooled else block.take()
    slot.begin(
        job_id=delivery.id,
        task=delivery.task.name,
        partition=delivery.pulse.keys.partition_of(delivery.id),
        fence=answer.fence,
        attempt=answer.attempt,
        owner=answer.owner,
        max_runtime=max_runtime_of(delivery.pulse, delivery.task),
    )
    return slot


def _left_to_do(task: JobTask, request: Mapping[str, Any]) -> tuple[bool, bool, bool]:
    """Return what Celery has left to do when the body is over: see ``Attempt.sends`` and those after it."""
    ignored = request.get("ignore_result")
    if ignored is None:
        ignored = task.ignore_result
    kind: Any = type(task)
    sends = any(request.get(k) for k in ("callbacks", "chain", "chord")) or _has_handlers(kind)
    stores = not ignored
    errors = stores or bool(task.store_errors_even_if_ignored)
    tells = sends or errors or bool(request.get("errbacks"))
    return sends, stores, tells


@cache
def _has_handlers(kind: type) -> bool:
    """Whether the task has handlers of its own that Celery calls after the body."""
    return any(
        getattr(kind, name) is not getattr(Task, name)
        for name in ("on_success", "on_failure", "after_return")
    )


def _aside(reason: StepAside) -> Any:
    try:
        raise reason
    except StepAside as exc:
        return trace_ok_t(ExceptionInfo(internal=True), TraceInfo(IGNORED, exc), 0.0, None)
