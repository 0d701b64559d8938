"""The heartbeat: a thread of the worker's main process that no busy pool process can starve.

It renews the leases of all running jobs every third of their TTL, however long a job computes, and
notices at once when a pool process dies. It imports neither Celery nor SQLAlchemy, has a Redis
client of its own, and never forks.
"""

from __future__ import annotations

import logging
from threading import Event, Thread
from time import monotonic
from typing import TYPE_CHECKING, Any

from redis.exceptions import RedisError

from denyut.signals.beat import Beater
from denyut.signals.pidwatch import PidWatch
from denyut.signals.procfs import usage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from denyut.config import Settings
    from denyut.keys import Keys
    from denyut.store import Store
    from denyut.tasks.held import Held
    from denyut.tasks.node import Node
    from denyut.tasks.slots import SlotBlock, SlotState

__all__ = ["Heartbeat"]

logger = logging.getLogger(__name__)

#: Pause before a failed beat is tried again (s).
_AGAIN = 0.1


class Heartbeat:
    """The heartbeat of one worker.

    Args:
        settings: of the app.
        keys: of the app.
        store: where its Redis client comes from.
        block: the worker's slots.
        node: the worker.
        held: the messages in hand.
        on_death: called with the job of a pool process that has died.
        about: what readers may know of this worker (pool, concurrency, ...).
    """

    def __init__(
        self,
        settings: Settings,
        keys: Keys,
        store: Store,
        block: SlotBlock,
        *,
        node: Node,
        held: Held,
        on_death: Callable[[SlotState], None],
        about: Mapping[str, str] | None = None,
    ) -> None:
        self._settings, self._keys, self._store = settings, keys, store
        self._block, self._node, self._held = block, node, held
        self._on_death = on_death
        self._about = dict(about or {})
        self._beater = Beater(settings, keys, block)
        self._stop = Event()
        self._watch: PidWatch | None = None
        self._thread: Thread | None = None
        self.beats = 0  # completed ones; tests wait for it
        self.lag = 0.0  # seconds that the last one was late

    def start(self) -> None:
        """Start the thread. A second call does nothing."""
        if self._thread is None:
            self._stop.clear()
            self._thread = Thread(target=self._run, name="denyut-heartbeat", daemon=True)
            self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        """Stop the thread and wait for it, at most ``timeout`` seconds."""
        self._stop.set()
        if self._watch is not None:
            self._watch.wake()
        if self._thread is not None:
            self._thread.join(timeout)
            self._thread = None

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._loop()
            except Exception:  # whatever it is, a worker without a heartbeat would lose all its jobs
                logger.exception("heartbeat: unexpected error; it begins again")
                self._stop.wait(_AGAIN)

    def _loop(self) -> None:
        client = self._store.fresh(retries=0)
        watch = self._watch = PidWatch()
        due = monotonic()
        try:
            while not self._stop.is_set():
                self.lag = max(monotonic() - due, 0.0)
                failed = not self._beat(client)
                # Late beats are not made up for: the next one is due an interval from now.
                due = monotonic() + _AGAIN if failed else max(due + self._settings.beat_interval, monotonic())
                self._wait_until(due, watch)
        finally:
            self._watch = None
            watch.close()
            client.close()

    def _beat(self, client: Any) -> bool:
        interval = self._settings.beat_interval
        self._bury_the_gone()
        try:
            done = self._beater.beat(client, self._held.snapshot_older_than(interval), self.lag)
            self._publish(client, len(done.jobs))
        except (RedisError, OSError) as exc:
            logger.warning("heartbeat: %s: %s; trying again", type(exc).__name__, exc)
            return False
        for job_id in done.lost:
            logger.warning("heartbeat: job %s lost its lease to another attempt", job_id)
        self.beats += 1
        return True

    def _wait_until(self, due: float, watch: PidWatch) -> None:
        while not self._stop.is_set() and (left := due - monotonic()) > 0:
            watch.follow(pid for _, _, pid in self._block.lives())
            for pid in watch.wait(min(left, 0.5)):
                self._bury(pid)

    def _bury_the_gone(self) -> None:
        """Bury processes that died before they could be watched: a beat must not renew for the dead."""
        for pid in {job.pid for job in self._beater.jobs()}:
            if usage(pid) is None:
                self._bury(pid)

    def _bury(self, dead: int) -> None:
        for index, life, pid in list(self._block.lives()):
            if pid != dead:
                continue
            self._block.read(index)
            job = self._block.last(index)
            self._block.bury(index, life)
            if job is not None and job.life == life:
                logger.warning("heartbeat: process %d died while it ran job %s", pid, job.job_id)
                self._on_death(job)

    def _publish(self, client: Any, running: int) -> None:
        key, node = self._keys.worker(self._node.owner), self._node
        seconds, micros = client.time()
        fields = {"name": node.name, "pid": node.pid, "running": running}
        fields |= {"beat_lag_ms": round(self.lag * 1000), **self._about}
        pipe = client.pipeline(transaction=False)
        pipe.hset(key, mapping=fields)
        pipe.pexpire(key, round(self._settings.alive_for * 1000))
        pipe.zadd(self._keys.workers(), {node.owner: seconds * 1_000_000 + micros})
        oldest = seconds * 1_000_000 - round(3600 * 1e6)
        pipe.zremrangebyscore(self._keys.workers(), "-inf", oldest)
        pipe.execute()
