"""``pulse.jobs``: reading jobs, and acting on them by hand."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from denyut.errors import UnknownJob
from denyut.monitoring.actions import Actions, check_limit
from denyut.monitoring.cache import StatusCache
from denyut.monitoring.listing import find_jobs
from denyut.monitoring.status import Status, read_statuses
from denyut.monitoring.story import Story, tell_story
from denyut.states import State
from denyut.tasks.bulk.many import BATCH, enqueue_many
from denyut.tasks.claim import us
from denyut.tasks.dead import DeadLetter, find_dead, read_letters
from denyut.tasks.history import JobEvent, job_events
from denyut.tasks.key import check_id
from denyut.tasks.missing import no_such_job
from denyut.tasks.result import decode_result
from denyut.tasks.saving.recall import recall
from denyut.tasks.times import seconds_until
from denyut.wanted import Wanted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from denyut.app import Denyut

__all__ = ["DeadPage", "Jobs", "Page"]


@dataclass(frozen=True, slots=True)
class Page:
    """Some jobs, newest first. ``cursor`` gives the next page; None at the end.

    ``complete`` is False if there is a job store and it could not be asked: then jobs that Redis has
    forgotten are missing.
    """

    jobs: list[Status]
    cursor: str | None
    complete: bool = True


@dataclass(frozen=True, slots=True)
class DeadPage:
    """Some dead letters, newest first. ``cursor`` gives the next page; None at the end."""

    letters: list[DeadLetter]
    cursor: str | None


class Jobs(Actions):
    """The jobs of one app, for whoever watches over them.

    Args:
        pulse: the app's Denyut.
    """

    def __init__(self, pulse: Denyut) -> None:
        super().__init__(pulse)
        self._cache = StatusCache(lambda job_id: read_statuses(pulse, [job_id])[0])

    def enqueue_many(
        self, task: Any, calls: Iterable[Any], *, on_error: str = "raise", batch: int = BATCH, **options: Any
    ) -> list[Any]:
        """Enqueue many jobs of one task: as ``apply_async`` for each, in a fraction of the time.

        Args:
            task: the task, or its name.
            calls: ``(args,)``, ``(args, kwargs)`` or ``(args, kwargs, options)`` of each job; any iterable,
                of which no more than ``batch`` are taken at once. Options are those of ``apply_async``, with
                ``idempotency_key``, ``countdown``, ``queue`` and so on.
            on_error: what is done about calls that are refused, once all others are enqueued: ``raise``
                ``EnqueueErrors``, or ``return`` their exceptions among the results.
            batch: most jobs of one round trip.
            options: of all jobs; a call's own come before them.

        Returns:
            for each call, in order, its ``AsyncResult``, whose ``deduplicated`` says whether the job existed.

        Raises:
            EnqueueErrors: calls were refused, or the connection broke: its ``results`` say which. Calls with
                an idempotency key may all be repeated.
        """
        return enqueue_many(self._pulse, task, calls, on_error=on_error, batch=batch, **options)

    def get(self, job_id: str, *, fresh: bool = False) -> Status:
        """Return the status of a job; its verdict is ``unknown`` if there is no such job.

        Many readers of one job in one process share one read for 500 ms.

        Args:
            job_id: the task id.
            fresh: read now, whatever was read before.

        Raises:
            InvalidKey: if ``job_id`` cannot be the id of a job.
        """
        return self._cache.get(check_id(job_id), fresh=fresh)

    def list(
        self,
        state: str | None = None,
        task: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
        *,
        key: str | None = None,
        since: Any = None,
        until: Any = None,
    ) -> Page:
        """Return jobs, newest first: all that are live, and those that ended within their retention.

        With a job store also those that it still has (``denyut_store_retention``). The order is by the
        last change of state (for a scheduled job: by when it is due), then by id. A page may be short,
        even empty, when few jobs fit: go on as long as there is a cursor.

        Args:
            state: only those in this state, such as ``RUNNING`` (upper or lower case).
            task: only those of this task.
            limit: most jobs to return, 1 to 1000.
            cursor: where the last page ended; give the same filters.
            key: only those with this idempotency key.
            since: only those that changed (or are due) then or later: a datetime, ISO 8601 text, or
                seconds from now, so that ``-3600`` is an hour ago.
            until: only those that changed, or are due, earlier than that.

        Raises:
            ValueError: for an unknown state, a limit out of range, times that are none or of which the
                later one comes first, or a cursor that is none.
        """
        check_limit(limit)
        wanted = _wanted(self._pulse, _state(state), task, key, since, until)
        ids, position, complete = find_jobs(self._pulse, wanted, limit=limit, cursor=cursor)
        # Some may have moved on since they were found.
        found = [s for s in read_statuses(self._pulse, ids) if s.record and wanted.state in (None, s.state)]
        return Page(found, position, complete)

    def watch(
        self, job_id: str, *, timeout: float | None = None, every: float | None = None
    ) -> Iterator[Status]:
        """Yield the status of a job now and whenever it changes, up to the final one.

        A change is one of the verdict, the record, the progress or the stage.

        Args:
            job_id: the task id.
            timeout: seconds after which to stop all the same; None: never.
            every: seconds between two looks; None: as ``poll_after_ms`` advises.

        Raises:
            InvalidKey: if ``job_id`` cannot be the id of a job.
            UnknownJob: if there is no such job, or none any more.
        """
        check_id(job_id)
        end = inf if timeout is None else monotonic() + timeout
        last: Any = None
        while True:
            status = self.get(job_id, fresh=True)
            if status.record is None:
                raise no_such_job(self._pulse, job_id)
            seen = _what_changes(status)
            if seen != last:
                last = seen
                yield status
            left = end - monotonic()
            if status.terminal or left <= 0:
                return
            sleep(min(left, status.poll_after_ms / 1000 if every is None else every))

    def dead(self, task: str | None = None, limit: int = 100, cursor: str | None = None) -> DeadPage:
        """Return dead letters, newest first: jobs whose budget of failures or crashes is spent.

        They are kept for ``denyut_dead_retention``, or until they are retried or purged.

        Args:
            task: only those of this task.
            limit: most letters to return, 1 to 1000.
            cursor: where the last page ended.

        Raises:
            ValueError: for a limit out of range, or a cursor that is none.
        """
        check_limit(limit)
        ids, position = find_dead(self._pulse, task=task, limit=limit, cursor=cursor)
        return DeadPage(read_letters(self._pulse, ids), position)

    # ``list`` is a method here, which hides the type from the annotations below it.
    def events(self, job_id: str) -> Sequence[JobEvent]:
        """Return what happened to a job, oldest first: every transition, refusal and duplicate that is known.

        Empty if there is no such job, or none any more.

        Raises:
            InvalidKey: if ``job_id`` cannot be the id of a job.
        """
        return job_events(self._pulse, check_id(job_id))

    def explain(self, job_id: str) -> Story:
        """Return the story of a job: its events, its verdict, and what will happen next.

        It has an honest answer also for a job that is not known, or not any more.

        Raises:
            InvalidKey: if ``job_id`` cannot be the id of a job.
        """
        return tell_story(self._pulse, check_id(job_id))

    def result(self, job_id: str) -> Any:
        """Return the result of a completed job from its record.

        Raises:
            UnknownJob: if there is no such job, or it has no result (yet).
        """
        client, conf = self._pulse.store.client, self._pulse.app.conf
        text = client.hget(self._pulse.keys.job(check_id(job_id)).record, "result")
        if text is None:
            text = recall(self._pulse, [job_id]).get(job_id, {}).get(b"result")
        if text is None:
            status = self.get(job_id, fresh=True)
            if status.gone is not None:
                raise no_such_job(self._pulse, job_id, "there is no result any more")
            raise UnknownJob(f"job {job_id!r} has no result: it is {status.verdict}")
        return decode_result(text, conf.result_accept_content or conf.accept_content)


def _state(name: str | None) -> State | None:
    if name is None:
        return None
    try:
        return State(name.upper())
    except ValueError:
        raise ValueError(f"state={name!r}: must be one of {', '.join(State)}") from None


def _wanted(
    pulse: Denyut, state: State | None, task: str | None, key: str | None, since: Any, until: Any
) -> Wanted:
    times: dict[str, int] = {}
    for name, when in (("since", since), ("until", until)):
        if when is not None:
            times[name] = pulse.store.now_us() + us(seconds_until(pulse.app, when, name))
    if len(times) == len(("since", "until")) and times["since"] >= times["until"]:
        raise ValueError(f"since={since!r}, until={until!r}: since must be the earlier one")
    return Wanted(state=state, task=task, key=key, **times)


def _what_changes(status: Status) -> tuple[Any, ...]:
    told = status.telemetry
    assert status.record is not None
    progress = (told.done, told.total, told.stage) if told else None
    return (status.verdict, status.record.version, progress)
