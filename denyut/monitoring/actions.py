"""Acting on jobs by hand: each action is in the audit, if there is a job store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from denyut.monitoring.audit import AuditPage, read_entries
from denyut.states import State
from denyut.tasks.again import retry_job
from denyut.tasks.cancellation import Cancellation, Outcome, cancel_job
from denyut.tasks.key import check_id
from denyut.tasks.purge import purge_some
from denyut.tasks.reindex import reindex
from denyut.tasks.release import Release, release_job
from denyut.tasks.reschedule import Rescheduled, reschedule
from denyut.tasks.saving.audit import audited

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["Actions", "check_limit"]

_MOST = 1000


class Actions:
    """What can be done to the jobs of one app by hand.

    Each may raise ``AuditFailed``: it was done, and that could not be noted.

    Args:
        pulse: the app's Denyut.
    """

    def __init__(self, pulse: Denyut) -> None:
        self._pulse = pulse

    def retry(
        self,
        job_id: str,
        *,
        from_checkpoint: bool = False,
        force: bool = False,
        reason: str = "",
        by: str | None = None,
    ) -> Any:
        """Make a new job of one that has ended, and return its ``AsyncResult``.

        See :func:`denyut.tasks.again.retry_job` for what the new job keeps of the old one.

        Args:
            job_id: a job that has ended and whose message is kept: a dead letter, or any but a
                completed one within its retention.
            from_checkpoint: begin at the last checkpoint of the old job.
            force: also if it has been retried already.
            reason: why, for the audit.
            by: who, for the audit; None: the user and host of this process.

        Raises:
            InvalidKey, UnknownJob: if there is no such job.
            AlreadyRetried: naming the job that it became.
            NotRetryable: saying why it cannot be retried.
            kombu.exceptions.OperationalError: it could not be published; nothing was retried.
        """
        with audited(self._pulse, "retry", job_id=check_id(job_id), by=by, reason=reason) as entry:
            new_id = retry_job(self._pulse, job_id, from_checkpoint=from_checkpoint, force=force)
            entry.after, entry.more["retried_as"] = entry.before, new_id
        return self._pulse.app.AsyncResult(new_id)

    def purge(
        self,
        *job_ids: str,
        task: str | None = None,
        older_than: float | None = None,
        every: bool = False,
        reason: str = "",
        by: str | None = None,
    ) -> int:
        """Let go of dead letters for ever, and return how many they were.

        Args:
            job_ids: these; or, if none is named, all that fit:
            task: only those of this task.
            older_than: only those that died so many seconds ago.
            every: all there are, if neither is given.
            reason: why, for the audit.
            by: who, for the audit; None: the user and host of this process.

        Raises:
            ValueError: if nothing says which.
        """
        if not job_ids and task is None and older_than is None and not every:
            raise ValueError("say which: job ids, task=, older_than=, or every=True for all dead letters")
        purged = 0
        for job_id in [check_id(each) for each in job_ids]:
            with audited(self._pulse, "purge", job_id=job_id, by=by, reason=reason) as entry:
                count = purge_some(self._pulse, [job_id], task=task, older_than=older_than)
                entry.after, entry.outcome = entry.before, "done" if count else "not a dead letter that fits"
            purged += count
        if not job_ids:
            with audited(
                self._pulse, "purge", by=by, reason=reason, task=task, older_than=older_than
            ) as entry:
                purged = entry.more["count"] = purge_some(self._pulse, [], task=task, older_than=older_than)
        return purged

    def reschedule(
        self,
        job_id: str,
        *,
        eta: Any = None,
        countdown: float | None = None,
        reason: str = "",
        by: str | None = None,
    ) -> Rescheduled:
        """Give a job that is SCHEDULED or RETRYING another time; any other is left as it is.

        Args:
            job_id: the task id.
            eta: when it shall be due (datetime, or ISO 8601 text); a time that has passed is now.
            countdown: or in how many seconds; 0 is now.
            reason: why, for the audit.
            by: who, for the audit; None: the user and host of this process.

        Raises:
            InvalidKey: if ``job_id`` cannot be the id of a job.
            ValueError: if not exactly one of both is given, or it cannot be meant.
        """
        with audited(self._pulse, "reschedule", job_id=check_id(job_id), by=by, reason=reason) as entry:
            done = reschedule(self._pulse, job_id, eta=eta, countdown=countdown)
            entry.after = str(done.state or "")
            entry.outcome = "done" if done.changed else "it does not wait"
            entry.more["due"] = done.due
        return done

    def cancel(self, job_id: str, *, reason: str = "", by: str | None = None) -> Cancellation:
        """Cancel a job in whatever state it is; on one that has ended it changes nothing and says so.

        One that waits ends at once. One that runs is told to stop: ``JobCancelled`` is raised in its
        body (see docs/cancel.md for each pool), and after ``denyut_interrupt_grace`` seconds its
        process is killed. Its result becomes REVOKED, its error links are called, its chord fails.

        Args:
            job_id: the task id.
            reason: why, for whoever waits for its result.
            by: who; None: the pid and host of this process.

        Returns:
            ``cancelled``, ``requested`` (it runs), or ``ended`` (it had already).

        Raises:
            InvalidKey: if ``job_id`` cannot be the id of a job.
            UnknownJob: if there is no such job, or none any more.
        """
        with audited(self._pulse, "cancel", job_id=check_id(job_id), by=by, reason=reason) as entry:
            done = cancel_job(self._pulse, job_id, reason=reason, by=by)
            entry.after = str(done.state)
            entry.outcome = "done" if done.outcome == Outcome.CANCELLED else str(done.outcome)
        return done

    def release(self, job_id: str, *, reason: str = "", by: str | None = None) -> Release:
        """Take a running job away from its worker: it runs again, from its last checkpoint.

        The attempt is told to stop (``LeaseLost``), and whatever it still writes is refused. It counts
        neither as a failure nor as a crash.

        Args:
            job_id: the task id.
            reason: why, for its story.
            by: who; None: the pid and host of this process.

        Raises:
            InvalidKey: if ``job_id`` cannot be the id of a job.
            UnknownJob: if there is no such job, or none any more.
            NotReleasable: if it does not run, or was cancelled.
            kombu.exceptions.OperationalError: it could not be published now; recovery does.
        """
        with audited(self._pulse, "release", job_id=check_id(job_id), by=by, reason=reason) as entry:
            done = release_job(self._pulse, job_id, reason=reason, by=by)
            entry.after, entry.more["worker"] = str(State.QUEUED), done.worker
        return done

    def reindex(self, *, reason: str = "", by: str | None = None) -> int:
        """Put jobs back into the indexes that have lost them, and return how many.

        Args:
            reason: why, for the audit.
            by: who, for the audit; None: the user and host of this process.
        """
        with audited(self._pulse, "reindex", by=by, reason=reason) as entry:
            count = entry.more["count"] = reindex(self._pulse)
        return count

    def restore(self, *, reason: str = "", by: str | None = None) -> int:
        """Put back from the job store what Redis has lost, and return how many jobs.

        Args:
            reason: why, for the audit.
            by: who, for the audit; None: the user and host of this process.

        Raises:
            ConfigurationError: there is no job store.
            sqlalchemy.exc.SQLAlchemyError, OSError: it cannot be read.
        """
        from denyut.tasks.saving.put_back import compare

        with audited(self._pulse, "restore", by=by, reason=reason) as entry:
            count = entry.more["count"] = compare(self._pulse, self._pulse.store.client)
        return count

    def audit(self, job_id: str | None = None, limit: int = 100, cursor: str | None = None) -> AuditPage:
        """Return what was done by hand, newest first: who, what, to which job, why, and what came of it.

        Args:
            job_id: only what was done to this job.
            limit: most entries to return, 1 to 1000.
            cursor: where the last page ended.

        Raises:
            InvalidKey: if ``job_id`` cannot be the id of a job.
            ConfigurationError: there is no job store.
            StoreUnavailable: it cannot be asked now.
            ValueError: for a limit out of range, or a cursor that is none.
        """
        check_limit(limit)
        job_id = None if job_id is None else check_id(job_id)
        return read_entries(self._pulse, job_id=job_id, limit=limit, cursor=cursor)


def check_limit(limit: int) -> None:
    """Raise ValueError if ``limit`` is no length of a page."""
    if not 1 <= limit <= _MOST:
        raise ValueError(f"limit={limit!r}: must be from 1 to {_MOST}")
