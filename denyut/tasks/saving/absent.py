"""What the job store was asked for in vain a moment ago: to poll an unknown id does not ask it each time."""

from __future__ import annotations

import os
from collections import OrderedDict
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from denyut.tasks.saving.gone import Gone

__all__ = ["Absent"]

#: How long an answer is good for (s), and how many are kept at most: the oldest go first.
KEEP = 5.0
MOST = 10_000


class Absent:
    """Remembers of ids that the store has no row of them, and whether they are gone.

    It is asked only for what Redis does not have, and forgets what this process enqueues. A job that
    somebody else enqueues is in Redis; should Redis forget it within ``keep``, it is unknown for so long.

    Args:
        keep: seconds that an answer is good for.
        most: most answers that are kept.
    """

    def __init__(self, *, keep: float = KEEP, most: int = MOST) -> None:
        self._keep, self._most = keep, most
        self._start()

    def known(self, job_ids: Iterable[str]) -> dict[str, Gone | None]:
        """Return those of the ids that the store was asked for lately: None, or how they are gone."""
        now = monotonic()
        with self._guard():
            found = {job_id: self._answers[job_id] for job_id in job_ids if job_id in self._answers}
        return {job_id: gone for job_id, (until, gone) in found.items() if until > now}

    def add(self, answers: Mapping[str, Gone | None]) -> None:
        """Remember what the store has answered."""
        until = monotonic() + self._keep
        with self._guard():
            for job_id, gone in answers.items():
                self._answers[job_id] = (until, gone)
                self._answers.move_to_end(job_id)
            while len(self._answers) > self._most:
                self._answers.popitem(last=False)

    def drop(self, job_ids: Iterable[str]) -> None:
        """Forget the answers for jobs that are there now."""
        if not self._answers:
            return
        with self._guard():
            for job_id in job_ids:
                self._answers.pop(job_id, None)

    def _guard(self) -> Lock:
        if self._pid != os.getpid():
            self._start()  # after a fork: another thread of the parent may have held the lock
        return self._lock

    def _start(self) -> None:
        self._lock = Lock()
        self._answers: OrderedDict[str, tuple[float, Gone | None]] = OrderedDict()
        self._pid = os.getpid()
