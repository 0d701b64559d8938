"""The applier: a thread of every worker's main process that writes to the store what it has not seen.

One of them, whoever holds a lease of a second, does so; the others stand by, and help with what waits for
longer than it should. Where two write the same job, that is written twice, and nothing is wrong. Many jobs
are one transaction and a few round trips; those that wait for longest come first. While the store is down
the index grows, by one entry for each job, and is drained when it is back.
"""

from __future__ import annotations

import logging
from random import sample, uniform
from time import monotonic
from typing import TYPE_CHECKING, Any

from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError

from denyut.database.audit import prune_audit
from denyut.database.prune import prune, prune_gone
from denyut.errors import SchemaMismatch
from denyut.service import Service
from denyut.tasks.claim import us
from denyut.tasks.node import current_node
from denyut.tasks.saving.audit import drain_audit
from denyut.tasks.saving.bounded import Bounded
from denyut.tasks.saving.put_back import put_back_lost
from denyut.tasks.saving.writer import save
from denyut.tasks.schedule import WATCH

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["Applier"]

logger = logging.getLogger(__name__)

#: Most jobs in one transaction.
BATCH = 500
#: Time between two looks (s).
EVERY = 0.25
#: How long one worker writes alone (s), unless it says again that it does; and after what time others help.
LEASE = 1.0
HELP_AFTER = 2.0
#: Time between two looks whether Redis has lost data (s).
COMPARE_EVERY = 1.0
#: How long one transaction may take (s), and putting back all that Redis has lost.
LONGEST = 10.0
LONGEST_COMPARE = 60.0
#: Time between two looks for rows whose time is over (s), if the last had all of them.
PRUNE_EVERY = 60.0
#: What is younger is left to whoever writes it through at once (s).
GRACE = 0.25


class Applier(Service):
    """The applier of one worker.

    Args:
        pulse: the app's Denyut, which has a database.
    """

    thread_name = "denyut-applier"

    def __init__(self, pulse: Denyut) -> None:
        super().__init__()
        self.pulse = pulse
        self._grace = GRACE if pulse.settings.store_writes == "through" else 0.0
        self._compared = 0.0
        self._prune_at = 0.0
        self._bounded = Bounded("denyut-applier-store")
        self._patience = max(LONGEST, 5 * pulse.settings.database_timeout)

    def run(self) -> None:
        """Look again and again; the last time when it is asked to stop, so that little is left behind."""
        while True:
            last, more = self.stopping.is_set(), False
            try:
                more = self.step() >= BATCH
            except RedisError as exc:
                logger.warning("job store: %s: %s; trying again", type(exc).__name__, exc)
            except Exception:  # one broken job must not end the writing of all others
                logger.exception("job store: unexpected error; trying again")
            if last:
                return
            if not more:
                self.stopping.wait(EVERY * uniform(0.8, 1.2))  # noqa: S311 - no secret

    def step(self) -> int:
        """Write one batch of what the store has not seen; returns how many jobs it was.

        Raises:
            redis.exceptions.RedisError: it is done by the next step of any applier.
        """
        saving = self.pulse.saving
        if saving.breaker.is_open:
            return 0
        client = self.pulse.store.client
        try:
            if monotonic() - self._compared >= COMPARE_EVERY:
                self._bounded.do(lambda: put_back_lost(self.pulse, client), LONGEST_COMPARE)
                self._bounded.do(lambda: drain_audit(self.pulse, client), self._patience)
                self._compared = monotonic()
            mine = self._is_mine(client)
            ids = self.waiting(client, helping=not mine)
            if ids:
                self._bounded.do(lambda: save(self.pulse, client, ids), self._patience)
                saving.worked(client, len(ids))
            if mine and self._is_time_to_prune(busy=len(ids) >= BATCH):
                self._bounded.do(self._prune, self._patience)
        except (SQLAlchemyError, SchemaMismatch, OSError) as exc:
            saving.failed(client, exc)
            return 0
        return len(ids)

    def _is_time_to_prune(self, *, busy: bool) -> bool:
        """Writing comes first where it is behind, but not for ever: what is never deleted grows."""
        return monotonic() >= self._prune_at + (PRUNE_EVERY if busy else 0.0)

    def _prune(self) -> None:
        settings, now = self.pulse.settings, self.pulse.store.now_us()
        with self.pulse.database.begin() as connection:
            before = now - us(settings.store_retention)
            jobs = prune(connection, settings.prefix, before, now_us=now, limit=BATCH)
        with self.pulse.database.begin() as connection:
            before = now - us(settings.gone_retention)
            gone = prune_gone(connection, settings.prefix, before, limit=BATCH)
        with self.pulse.database.begin() as connection:
            before = now - us(settings.audit_retention)
            audit = prune_audit(connection, settings.prefix, before, limit=BATCH)
        self._prune_at = monotonic() + (PRUNE_EVERY if max(jobs, gone, audit) < BATCH else 0.0)

    def _is_mine(self, client: Any) -> bool:
        keys = self.pulse.keys
        args = [current_node().owner, round(LEASE * 1000)]
        return bool(WATCH(client, [keys.outbox_watch(), keys.workers()], args)[0])

    def waiting(self, client: Any, *, helping: bool = False) -> list[str]:
        """Return jobs that the store has not seen, those first that wait for longest.

        Args:
            client: a Redis client.
            helping: only what waits for long, of half of the partitions: whoever else helps takes others.
        """
        seconds, micros = client.time()
        before = int(seconds) * 1_000_000 + int(micros) - us(HELP_AFTER if helping else self._grace)
        partitions = list(self.pulse.keys.all_partitions())
        if helping:
            partitions = sample(partitions, (len(partitions) + 1) // 2)
        pipe = client.pipeline(transaction=False)
        for part in partitions:
            pipe.zrangebyscore(part.outbox, "-inf", before, start=0, num=BATCH, withscores=True)
        found = sorted((score, job_id) for page in pipe.execute() for job_id, score in page)
        return [job_id.decode() for _, job_id in found[:BATCH]]

    def interrupt(self) -> None:
        """Nothing to do: the pause ends when it is asked to stop."""

    def stop(self, timeout: float = 5.0) -> None:
        """Ask the thread to stop, when it has looked once more, and wait for it, so many seconds at most."""
        super().stop(timeout)
        self.close()

    def close(self) -> None:
        """End what a step has left running."""
        self._bounded.close(1.0)
