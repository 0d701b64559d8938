"""Every error that Denyut raises. ``except DenyutError`` catches them all but two.

The two that stop a running body, :class:`LeaseLost` and :class:`JobCancelled`, are no ``Exception``.
Each message says what was wrong, with which value, and what to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "AlreadyCommitted",
    "AlreadyRetried",
    "AuditFailed",
    "ConfigurationError",
    "DenyutError",
    "EmbeddedUnavailable",
    "EnqueueErrors",
    "EventConflict",
    "EventError",
    "IdempotencyConflict",
    "InvalidEvent",
    "InvalidKey",
    "InvalidLock",
    "InvalidStream",
    "InvalidUniqueness",
    "JobCancelled",
    "JobDead",
    "JobExists",
    "JobExited",
    "JobGone",
    "JobInterrupt",
    "KeyTaken",
    "LeaseLost",
    "LockHeldHere",
    "LockLost",
    "LockTaken",
    "MessageTooLarge",
    "NoCurrentJob",
    "NotKeepable",
    "NotReleasable",
    "NotRetryable",
    "OutboxUnavailable",
    "PoisonBatch",
    "RecorderClosed",
    "SchemaMismatch",
    "StaleWriter",
    "StoreUnavailable",
    "StreamDegraded",
    "Unfingerprintable",
    "UnknownJob",
    "UnreadableMessage",
]


class DenyutError(Exception):
    """The base of every error raised by Denyut."""


class ConfigurationError(DenyutError, ValueError):
    """A setting is unknown, has the wrong type, or is out of range."""


class SchemaMismatch(ConfigurationError):
    """The tables of the job store are not what this version of Denyut can work with; says what to do."""


class EmbeddedUnavailable(ConfigurationError):
    """No Redis is configured and a private one cannot, or must not, be started."""


class InvalidKey(DenyutError, ValueError):
    """An idempotency key or job id is empty, too long, or not a string. Nothing was enqueued."""


class Unfingerprintable(DenyutError, TypeError):
    """The arguments of a keyed job have no canonical form. Nothing was enqueued."""


class MessageTooLarge(DenyutError, ValueError):
    """The encoded arguments of a job are larger than ``denyut_max_message_bytes``. Nothing was enqueued.

    ``size`` and ``limit`` are in bytes.
    """

    def __init__(self, task: str, size: int, limit: int) -> None:
        super().__init__(task, size, limit)
        self.task = task
        self.size = size
        self.limit = limit

    def __str__(self) -> str:
        return (
            f"a job of task {self.task!r} has a message of {self.size} bytes, and {self.limit} are allowed "
            "(denyut_max_message_bytes): keep the data elsewhere, and send where it is"
        )


class EnqueueErrors(DenyutError):
    """Some calls of ``enqueue_many`` were refused; all others were enqueued.

    ``results`` has for each call, in order, its ``AsyncResult`` or the exception that it got; ``errors`` has
    the exceptions alone, by index. If the connection broke, the calls of that batch have its exception, and
    may have been enqueued all the same; the list then ends with them.
    """

    def __init__(self, results: Sequence[object]) -> None:
        super().__init__(list(results))
        self.results = list(results)

    @property
    def errors(self) -> dict[int, Exception]:
        """The exceptions, by the index of their call."""
        return {i: found for i, found in enumerate(self.results) if isinstance(found, Exception)}

    def __str__(self) -> str:
        found = self.errors
        shown = "; ".join(f"call {i}: {exc}" for i, exc in list(found.items())[:5])
        more = f"; and {len(found) - 5} more" if len(found) > 5 else ""  # noqa: PLR2004
        return f"{len(found)} of {len(self.results)} calls were not enqueued: {shown}{more}"


class InvalidUniqueness(DenyutError, ValueError):
    """One of ``unique_for``, ``unique_until``, ``unique_scope``, ``on_conflict`` cannot be meant.

    Nothing was enqueued.
    """


class KeyTaken(DenyutError):
    """The idempotency key has a job, and this call is not to be answered with that. Nothing was enqueued.

    ``job_id`` is the id of the job that holds the key.
    """

    def __init__(self, key: str, task: str, job_id: str) -> None:
        super().__init__(key, task, job_id)
        self.key = key
        self.task = task
        self.job_id = job_id


class JobExists(KeyTaken):
    """The idempotency key is taken, and ``on_conflict="raise"`` was asked for."""

    def __str__(self) -> str:
        return (
            f"idempotency key {self.key!r} of task {self.task!r} belongs to job {self.job_id} already; "
            "on_conflict='return' would answer with that job"
        )


class IdempotencyConflict(KeyTaken):
    """The idempotency key is taken by a job with other arguments."""

    def __str__(self) -> str:
        return (
            f"idempotency key {self.key!r} of task {self.task!r} belongs to job {self.job_id}, "
            "which has other arguments; use another key, or send the same arguments"
        )


class JobInterrupt(BaseException):
    """The running body is to stop: the base of :class:`LeaseLost` and :class:`JobCancelled`.

    Not an ``Exception``, as ``asyncio.CancelledError`` is none: a task that catches every error of a
    row, or is retried for any error (``autoretry_for=(Exception,)``), stops all the same. Catch it by
    name to clean up, and raise it again.
    """


class LeaseLost(JobInterrupt):
    """This attempt no longer owns its job: another attempt may have begun. Stop working."""


class JobCancelled(JobInterrupt):
    """The job was cancelled while it ran. Clean up and stop."""


class JobDead(DenyutError):
    """The job's crash budget is spent; it is in the dead letter and will not run again."""


class AlreadyCommitted(DenyutError, RuntimeError):
    """One attempt committed the same effect twice. The second transaction was not committed."""


class JobExited(DenyutError):
    """The task raised something that is no ``Exception``, such as ``SystemExit``: it failed.

    ``kind`` is the name of that class, ``text`` what it said.
    """

    def __init__(self, kind: str, text: str = "") -> None:
        super().__init__(kind, text)
        self.kind = kind
        self.text = text

    def __str__(self) -> str:
        return f"the task ended itself by {self.kind}({self.text}); raise an Exception to say what went wrong"


class NoCurrentJob(DenyutError, RuntimeError):
    """``current_job()`` was called outside a running task."""


class UnreadableMessage(DenyutError, ValueError):
    """What the record keeps as a job's message cannot be read, so the job can never run. It has failed."""


class NotRetryable(DenyutError):
    """This job cannot be retried by hand; the message says why. Nothing was enqueued."""


class AlreadyRetried(NotRetryable):
    """The job has been retried already. ``job_id`` is the job that it became."""

    def __init__(self, old_id: str, job_id: str) -> None:
        super().__init__(old_id, job_id)
        self.old_id = old_id
        self.job_id = job_id

    def __str__(self) -> str:
        return f"job {self.old_id!r} has been retried already, as job {self.job_id}; force it to retry again"


class NotKeepable(DenyutError, TypeError):
    """An outbox cannot take this; the message says why. Nothing was written."""


class OutboxUnavailable(DenyutError):
    """The database of an outbox cannot be read, or written."""


class NotReleasable(DenyutError):
    """The job does not run, or was cancelled, so it cannot be taken away from its worker."""


class UnknownJob(DenyutError, LookupError):
    """No job with this id is known."""


class AuditFailed(DenyutError):
    """Something was done by hand, and that could not be noted in the audit. It is not undone."""


class StoreUnavailable(DenyutError):
    """The job store cannot be asked now; the log, and ``denyut doctor``, say why. Try again later."""


class JobGone(UnknownJob):
    """There was a job with this id; its retention is over. The message says how it ended."""


class InvalidLock(DenyutError, ValueError):
    """The name, TTL or timeout of a lock is none. Nothing was locked."""


class LockTaken(DenyutError, TimeoutError):
    """Somebody else had the lock for as long as this caller was willing to wait."""


class LockHeldHere(DenyutError, RuntimeError):
    """This very thread holds the lock already: it would wait for itself. Locks are not re-entrant."""


class LockLost(DenyutError, RuntimeError):
    """The lock is not held, or no longer: another may have it by now. Stop, and write nothing more."""


class EventError(NamedTuple):
    """Why one event of a batch was refused: its ``index`` in the batch and the ``reason``."""

    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
    reason: str


class InvalidEvent(DenyutError, ValueError):
    """Events were refused at the door. ``errors`` names each by index, with the reason.

    ``sent`` is the number of valid events of the same batch that were sent all the same
    (0 unless the caller asked for that).
    """

    # Celery makes an error again from its args, as positional arguments.
    def __init__(self, errors: Sequence[EventError], sent: int = 0) -> None:
        super().__init__(list(errors), sent)
        self.errors = [EventError(*error) for error in errors]
        self.sent = sent

    def __str__(self) -> str:
        shown = "; ".join(f"event {e.index}: {e.reason}" for e in self.errors[:5])
        more = f"; and {len(self.errors) - 5} more" if len(self.errors) > 5 else ""  # noqa: PLR2004
        return f"{len(self.errors)} invalid event(s), {self.sent} sent: {shown}{more}"


class InvalidStream(InvalidEvent):
    """The name of a stream is empty, too long, not a string, or has characters that no name may have."""

    def __init__(self, reason: str) -> None:
        super().__init__([EventError(0, reason)])
        self.args = (reason,)
        self.reason = reason

    def __str__(self) -> str:
        return self.reason


class RecorderClosed(DenyutError, ValueError):
    """The recorder was closed before this event came. The event was not kept: use another recorder."""


class PoisonBatch(DenyutError, ValueError):
    """A batch of events cannot be decoded, so none of it was applied. It is not tried again."""


class StaleWriter(DenyutError):
    """A writer with a higher fence owns the stream's shard by now. Nothing was changed."""


class EventConflict(DenyutError):
    """An event id was sent again with another value. The first value stands."""


class StreamDegraded(DenyutError):
    """The stream's state cannot be trusted; there is no valid reading to give."""
