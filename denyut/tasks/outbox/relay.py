"""The relay: a thread of every worker's main process that enqueues what transactions have put into an outbox.

One thread for each database. One worker, whoever holds a lease in Redis, looks into it: at once when it is
poked after a commit, else every ``denyut_outbox_interval``; the others stand by. Where two look at once (the
holder was paused) PostgreSQL gives each row to one of them, and with SQLite both send the same jobs, of which
one comes into being.

The order in which jobs are sent is that of their enqueue, as far as the rows can be seen: within a
transaction always; of two transactions if the second enqueued after the first had committed. Of transactions
that overlap PostgreSQL may show the later row first. A row that could not be sent is tried again after the
others.
"""

from __future__ import annotations

import logging
from contextlib import closing
from random import uniform
from time import monotonic
from typing import TYPE_CHECKING, Any

from kombu.exceptions import OperationalError
from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError

from denyut.database.outbox_look import read_backlog
from denyut.database.outbox_take import drop, put_aside, put_off, take
from denyut.service import Service
from denyut.tasks.node import current_node
from denyut.tasks.outbox.deliver import Delivery, clock, deliver, forget, remember
from denyut.tasks.outbox.report import Report
from denyut.tasks.schedule import WATCH

if TYPE_CHECKING:
    from denyut.app import Denyut
    from denyut.database.outbox_take import Row
    from denyut.tasks.outbox.places import Place

__all__ = ["Relay"]

logger = logging.getLogger(__name__)

#: Most rows in one transaction.
BATCH = 200
#: How often one that cannot be sent is tried, and the pause after the first try (s), which doubles.
TRIES = 5
FIRST_PAUSE = 1.0
#: How long the holder of the lease may be silent (s), and how often it says that it is there (s).
LEASE = 3.0
SAY_EVERY = 1.0
#: When it looks after a poke (s): a Connection pokes just before it commits.
AFTER_POKE = (0.0, 0.02, 0.1)
#: Time between two counts of what waits (s).
COUNT_EVERY = 5.0
#: Pause after an error (s), which doubles, and the longest.
AFTER_ERROR = 0.25
LONGEST_PAUSE = 5.0


class Relay(Service):
    """The relay of one worker for one database.

    Args:
        pulse: the app's Denyut.
        place: the database.
    """

    thread_name = "denyut-relay"

    def __init__(self, pulse: Denyut, place: Place) -> None:
        super().__init__()
        self.pulse = pulse
        self.place = place
        self.database = place.open(pulse.settings.database_timeout)
        self.report = Report(pulse, place, self.database.url.password)
        self.holding = False
        self.looks = 0  # tests wait for it
        self._looks_at: list[float] = [0.0]  # when to look, by this process's clock
        self._count_at = 0.0
        self._failures = 0

    def run(self) -> None:
        """Look again and again."""
        client = self.pulse.store.fresh(
            retries=0, timeout=max(self.pulse.settings.redis_timeout, 2 * SAY_EVERY)
        )
        with closing(client):
            while not self.stopping.is_set():
                pause = self._step_or_say()
                if self.holding and pause > 0:
                    self._wait_for_poke(client, pause)
                else:
                    self.stopping.wait(pause)
        self.close()

    def close(self) -> None:
        """Close the connections to the database."""
        self.database.close()

    def interrupt(self) -> None:
        """End the wait for a poke."""
        try:
            self.pulse.store.client.lpush(self.pulse.keys.relay_poke(self.place.name), "1")
        except RedisError as exc:  # then the wait has ended, with the same error
            logger.debug("outbox: %s", exc)

    def step(self) -> float:
        """Look if it is time, and if this worker is to; returns the seconds until the next step.

        Raises:
            redis.exceptions.RedisError, kombu.exceptions.OperationalError, OSError: jobs cannot be sent.
            sqlalchemy.exc.SQLAlchemyError: the database cannot be read, or written.
        """
        keys = self.pulse.keys
        names = [keys.relay_watch(self.place.name), keys.workers()]
        mine, left, _ = WATCH(self.pulse.store.client, names, [current_node().owner, round(LEASE * 1000)])
        self.holding = bool(mine)
        if not self.holding:
            self._looks_at = [0.0]
            return max(int(left), 1) / 1000 + uniform(0, 0.1)  # noqa: S311 - no secret
        now = monotonic()
        if now >= self._looks_at[0]:
            del self._looks_at[0]
            if self.look() >= BATCH:
                self._looks_at.insert(0, 0.0)
            elif not self._looks_at:
                self._looks_at.append(now + self.pulse.settings.outbox_interval)
        return min(max(self._looks_at[0] - monotonic(), 0.0), SAY_EVERY)

    def poked(self) -> None:
        """Look soon: something was put into the outbox."""
        now = monotonic()
        self._looks_at = [now + after for after in AFTER_POKE]

    def look(self) -> int:
        """Relay one batch; returns how many rows there were. Raises as :meth:`step`."""
        pulse, place, found = self.pulse, self.place.name, Delivery()
        with self.database.begin() as connection:
            since = clock()
            rows = take(connection, pulse.settings.prefix, BATCH)
            if rows:
                found = deliver(pulse, place, rows, since)
                # Before they are deleted: a relay that cannot delete them must not send them after their end.
                remember(pulse, place, found.sent)
                drop(connection, [row.seq for row in found.sent])
                for row, why in found.refused:
                    self._refused(connection, row, why)
            if monotonic() >= self._count_at:
                self.report.counted(read_backlog(connection, pulse.settings.prefix))
                self._count_at = monotonic() + COUNT_EVERY
        self.looks += 1
        forget(pulse, place, found.sent)
        self.report.worked(len(found.sent), len(found.refused))
        if found.trouble is not None:
            raise found.trouble
        return len(rows)

    def _refused(self, connection: Any, row: Row, why: str) -> None:
        if row.attempts + 1 < TRIES:
            put_off(connection, row.seq, why, FIRST_PAUSE * 2**row.attempts)
            return
        put_aside(connection, row.seq, why)
        logger.error(
            "outbox: job %s is set aside after %d tries: %s (celery -A APP denyut outbox list)",
            *(row.id, TRIES, why),
        )

    def _step_or_say(self) -> float:
        try:
            pause = self.step()
        except SQLAlchemyError as exc:
            self.report.failed(exc)
        except (RedisError, OperationalError, OSError) as exc:
            logger.warning("outbox: %s: %s; trying again", type(exc).__name__, exc)
        except Exception:  # one broken job must not end the relay of all others
            logger.exception("outbox: unexpected error; trying again")
        else:
            self._failures = 0
            return pause
        self._failures += 1
        self.holding, self._looks_at = False, [0.0]
        return float(min(AFTER_ERROR * 2 ** min(self._failures - 1, 10), LONGEST_PAUSE))

    def _wait_for_poke(self, client: Any, pause: float) -> None:
        try:
            if client.blpop([self.pulse.keys.relay_poke(self.place.name)], timeout=pause) is not None:
                self.poked()
        except (RedisError, OSError) as exc:
            logger.debug("outbox: cannot be poked: %s", exc)
            self.stopping.wait(pause)
