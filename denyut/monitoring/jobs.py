"""``pulse.jobs``: reading jobs."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from denyut.errors import UnknownJob
from denyut.monitoring.cache import StatusCache
from denyut.monitoring.listing import find_jobs
from denyut.monitoring.status import Status, read_statuses
from denyut.states import State
from denyut.tasks.key import check_id
from denyut.tasks.result import decode_result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from denyut.app import Denyut

__all__ = ["Jobs", "Page"]

_MOST = 1000


@dataclass(frozen=True, slots=True)
class Page:
    """Some jobs, newest first. ``cursor`` gives the next page; None at the end."""

    jobs: list[Status]
    cursor: str | None


class Jobs:
    """Reading the jobs of one app.

    Args:
        pulse: the app's Denyut.
    """

    def __init__(self, pulse: Denyut) -> None:
        self._pulse = pulse
        self._cache = StatusCache(lambda job_id: read_statuses(pulse, [job_id])[0])

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
        self, state: str | None = None, task: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> Page:
        """Return jobs, newest first: all that are live, and those that ended within their retention.

        The order is by the last change of state (for a scheduled job: by when it is due). A page may be
        short, even empty, when few jobs fit: go on as long as there is a cursor.

        Args:
            state: only those in this state, such as ``RUNNING`` (upper or lower case).
            task: only those of this task.
            limit: most jobs to return, 1 to 1000.
            cursor: where the last page ended.

        Raises:
            ValueError: for an unknown state, a limit out of range, or a cursor that is none.
        """
        if not 1 <= limit <= _MOST:
            raise ValueError(f"limit={limit!r}: must be from 1 to {_MOST}")
        wanted = _state(state)
        ids, position = find_jobs(self._pulse, state=wanted, task=task, limit=limit, cursor=cursor)
        # Some may have moved on since they were found.
        found = [s for s in read_statuses(self._pulse, ids) if s.record and wanted in (None, s.state)]
        return Page(found, position)

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
                raise UnknownJob(f"no job has the id {job_id!r}, or its retention is over")
            seen = _what_changes(status)
            if seen != last:
                last = seen
                yield status
            left = end - monotonic()
            if status.terminal or left <= 0:
                return
            sleep(min(left, status.poll_after_ms / 1000 if every is None else every))

    def result(self, job_id: str) -> Any:
        """Return the result of a completed job from its record.

        Raises:
            UnknownJob: if there is no such job, or it has no result (yet).
        """
        client, conf = self._pulse.store.client, self._pulse.app.conf
        text = client.hget(self._pulse.keys.job(check_id(job_id)).record, "result")
        if text is None:
            raise UnknownJob(f"job {job_id!r} has no result: it is {self.get(job_id, fresh=True).verdict}")
        return decode_result(text, conf.result_accept_content or conf.accept_content)


def _state(name: str | None) -> State | None:
    if name is None:
        return None
    try:
        return State(name.upper())
    except ValueError:
        raise ValueError(f"state={name!r}: must be one of {', '.join(State)}") from None


def _what_changes(status: Status) -> tuple[Any, ...]:
    told = status.telemetry
    assert status.record is not None
    progress = (told.done, told.total, told.stage) if told else None
    return (status.verdict, status.record.version, progress)
