"""Write-through: the process that made a transition writes it to the store at once, for a bounded time.

Nobody waits longer than ``denyut_database_timeout``, and after a failure nobody waits until the store has
answered again: it is tried beside the work. What is not written is on the index, for the applier.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any

from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError

from denyut.errors import SchemaMismatch
from denyut.tasks.saving.absent import Absent
from denyut.tasks.saving.bounded import Bounded
from denyut.tasks.saving.breaker import Breaker
from denyut.tasks.saving.put_back import put_back
from denyut.tasks.saving.writer import save

if TYPE_CHECKING:
    from collections.abc import Callable

    from denyut.app import Denyut

__all__ = ["Saving"]

logger = logging.getLogger(__name__)


class Saving:
    """The writes of one process.

    Args:
        pulse: the app's Denyut, which has a database.
    """

    def __init__(self, pulse: Denyut) -> None:
        self.pulse = pulse
        self.through = pulse.settings.store_writes == "through"
        #: What the store was asked for in vain.
        self.absent = Absent()
        self._pid = 0
        self._renew()

    def prepare(self) -> None:
        """Make what is to be made before the first fork, and look whether the tables are what is needed.

        A database that cannot be reached now is looked at when it is first used. No connection is left.

        Raises:
            ConfigurationError: the database's driver is not installed.
            SchemaMismatch: this version of Denyut cannot work with the tables.
        """
        database = self.pulse.database
        try:
            database.check()
        except (SQLAlchemyError, OSError) as exc:
            logger.warning("the job store cannot be reached yet: %s", self.breaker.explain(exc))
        finally:
            database.close()

    def wrote(self, *job_ids: str) -> bool:
        """Write jobs through that this process has just changed; False if they are left to the applier."""
        self.absent.drop(job_ids)
        if not self.through:
            return False
        return self._within(lambda: save(self.pulse, self.pulse.store.client, job_ids)) is not None

    def put_back(self, job_id: str) -> bool:
        """Put back a job that Redis has lost, if the store has it; False also if it cannot be asked now."""
        return bool(self._within(lambda: put_back(self.pulse, self.pulse.store.client, [job_id])))

    def ask(self, read: Callable[[], Any]) -> Any:
        """Return ``read()``, which reads the store; None if it cannot be read now, or not in time."""
        return self._within(read)

    def failed(self, client: Any, exc: BaseException) -> None:
        """Note that the store could not be written, where every process can read it."""
        text = self.breaker.failed(exc)
        pipe = client.pipeline(transaction=False)
        pipe.hset(self.pulse.keys.saving(), mapping={"error": text, "error_at": self.pulse.store.now_us()})
        pipe.hincrby(self.pulse.keys.saving(), "failures", 1)
        pipe.execute()

    def worked(self, client: Any, jobs: int) -> None:
        """Note that so many jobs were written."""
        self.breaker.worked()
        pipe = client.pipeline(transaction=False)
        pipe.hincrby(self.pulse.keys.saving(), "jobs", jobs)
        pipe.hincrby(self.pulse.keys.saving(), "writes", 1)
        pipe.hdel(self.pulse.keys.saving(), "error", "error_at")
        pipe.execute()

    def close(self) -> None:
        """End the threads, if they answer; the next write starts another."""
        if self._pid == os.getpid():
            self._bounded.close(self.pulse.settings.database_timeout)

    def _renew(self) -> None:
        self._pid = os.getpid()
        self.breaker = Breaker(self.pulse.settings.database_url or "")
        self._bounded = Bounded("denyut-saving")

    def _within(self, work: Callable[[], Any]) -> Any:
        """Return the answer of ``work``; None if there is none in time, or if the store is down."""
        if self._pid != os.getpid():
            self._renew()  # the thread, and its lock, are the parent's
        if self.breaker.is_open:
            return None
        if self.breaker.error:  # whether it is back is found out beside the work
            self.breaker.put_off()
            self._bounded.submit(lambda: self._try(work))
            return None
        try:
            return self._bounded.do(lambda: self._try(work), self.pulse.settings.database_timeout)
        except TimeoutError as exc:
            self.breaker.failed(exc)
            return None

    def _try(self, work: Callable[[], Any]) -> Any:
        try:
            answer = work()
        except RedisError as exc:  # the store is not to blame; the applier writes it
            logger.warning("job store: not written through, for Redis: %s", exc)
        except (SQLAlchemyError, SchemaMismatch, OSError) as exc:
            self.breaker.failed(exc)
        else:
            self.breaker.worked()
            return answer
        return None
