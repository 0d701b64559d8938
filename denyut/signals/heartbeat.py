"""The heartbeat: a thread of the worker's main process that no busy pool process can starve.

It renews the leases of all running jobs every third of their TTL, however long a job computes, and
notices at once when a pool process dies. It imports neither Celery nor SQLAlchemy, has a Redis
client of its own, and never forks.
"""

from __future__ import annotations

import logging
from contextlib import closing
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING, Any

from redis.exceptions import RedisError

from denyut.scripts import Script, run_all
from denyut.service import Service
from denyut.signals.beat import Beat, Beater
from denyut.signals.drain import Drain
from denyut.signals.enforcer import Enforcer
from denyut.signals.pidwatch import PidWatch
from denyut.signals.watchdog import LetGo, Watchdog
from denyut.tasks.slot import LOST, STOP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from denyut.config import Settings
    from denyut.keys import Keys
    from denyut.scripts import Call
    from denyut.signals.wake import Wake
    from denyut.store import Store
    from denyut.tasks.held import InHand
    from denyut.tasks.node import Node
    from denyut.tasks.slots import SlotBlock, SlotState

__all__ = ["Heartbeat"]

WORKER = Script("denyut.signals", "worker")
LEAVE = Script("denyut.signals", "leave")
LET_GO = Script("denyut.signals", "let_go")

logger = logging.getLogger(__name__)

#: Pause before a failed beat is tried again (s).
_AGAIN = 0.1
#: How long a message is in hand before Redis is told, beats apart (s). Most have begun by then.
_TELL_AFTER = 0.25
#: Pause between two complaints about the same trouble (s).
_COMPLAIN_EVERY = 5.0
#: The shortest wait for a reply, for very short leases on slow machines (s).
_SHORTEST_WAIT = 0.2
#: How long to wait until Redis knows which job is about to be ended (s).
_TELL_WITHIN = 1.0
#: How long a worker that is gone stays in the list of workers (s).
_REMEMBERED = 3600.0


class Heartbeat(Service):
    """The heartbeat of one worker.

    Args:
        settings: of the app.
        keys: of the app.
        store: where its Redis client comes from.
        block: the worker's slots.
        node: the worker.
        held: the messages in hand.
        wake: set by pool processes that have begun to use their slot; ends a wait.
        on_death: called with the job of a pool process that has died. Must not block.
        about: what readers may know of this worker (pool, concurrency, ...).
        revive: called after each beat, to start other threads of this worker again that have died.
    """

    thread_name = "denyut-heartbeat"

    def __init__(
        self,
        settings: Settings,
        keys: Keys,
        store: Store,
        block: SlotBlock,
        *,
        node: Node,
        held: InHand,
        wake: Wake,
        on_death: Callable[[SlotState], None],
        about: Mapping[str, str] | None = None,
        revive: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__()
        self._settings, self._keys, self._store = settings, keys, store
        self._block, self._node, self._held, self._wake = block, node, held, wake
        self._on_death = on_death
        self._revive = revive
        self._about = [item for pair in (about or {}).items() for item in pair]
        self._beater = Beater(settings, keys, block)
        self._watchdog = Watchdog(settings)
        self._enforcer = Enforcer(block, STOP, settings.interrupt_grace, spared=node.pid)
        self._hurried = Event()
        self.beats = 0  # completed ones
        self.completed = Event()  # set after each of them; tests clear it and wait
        self.lag = 0.0  # seconds that the last one was late
        self._drain = Drain()
        # Only the thread uses what follows.
        self._due = 0.0
        self._failures = 0
        self._left: list[Call] = []  # that release the locks of dead processes, and tell of jobs let go of
        self._complained = float("-inf")
        self._told: set[str] = set()  # messages in hand that Redis knows of

    def hurry(self) -> None:
        """Beat now: a record has something to say to this worker. From any thread."""
        self._hurried.set()
        self._wake.set()

    def interrupt(self) -> None:
        """End a wait for the next beat or a death."""
        self._wake.set()

    def drain(self, job_id: str) -> None:
        """Tell Redis that the worker ends the running job ``job_id`` on purpose: that is nobody's crash.

        Waits until Redis knows, a second at most.
        """
        asked = self._drain.ask(job.fence for job in self._beater.jobs() if job.job_id == job_id)
        self._wake.set()
        self._drain.wait(asked, _TELL_WITHIN)

    def drain_all(self) -> None:
        """The same for all jobs, also those to come: the worker ends. Does not wait."""
        self._drain.ask(everything=True)
        self._wake.set()

    @property
    def draining(self) -> bool:
        """Whether the whole worker ends."""
        return self._drain.everything

    def run(self) -> None:
        """Beat until it is asked to stop, and sign off."""
        self._due = monotonic()
        while not self.stopping.is_set():
            try:
                self._loop()
            except Exception:  # whatever it is, a worker without a heartbeat would lose all its jobs
                logger.exception("heartbeat: unexpected error; it begins again")
                self.stopping.wait(_AGAIN)

    def _loop(self) -> None:
        # A reply that does not come must not cost more than one beat.
        timeout = min(self._settings.redis_timeout, max(self._settings.beat_interval, _SHORTEST_WAIT))
        client = self._store.fresh(retries=0, timeout=timeout)
        with closing(client), closing(PidWatch(self._wake)) as watch:
            self._bury(watch.follow(self._pids()))
            while not self.stopping.is_set():
                if self._beat(client):
                    if (now := monotonic()) >= self._due:  # else it was hurried: the next one stays due
                        # Beats that were missed are not made up for: one renews as much as three.
                        self._due = max(self._due + self._settings.beat_interval, now)
                    self._watch_until(self._due, watch, client)
                else:
                    self._watch_until(monotonic() + _AGAIN, watch, client)
            self._leave(client)

    def _beat(self, client: Any) -> bool:
        self.lag = max(monotonic() - self._due, 0.0)
        in_hand = self._held.snapshot_older_than(self._settings.beat_interval)
        try:
            running = self._beater.jobs()
            for gone in self._watchdog.look(running):
                self._let_go(gone)
            jobs = self._watchdog.kept(running)
            drain = self._drain.begin(jobs)
            more = [self._about_me(len(running)), *self._left]
            done = self._beater.beat(client, jobs, in_hand, lag=self.lag, more=more, draining=drain)
        except (RedisError, OSError) as exc:
            self._failures += 1
            self._complain("heartbeat: %s: %s; trying again until it is there", type(exc).__name__, exc)
            return False
        self._left.clear()
        self._drain.end()
        self._report(done)
        self._enforcer.follow(done)
        self.beats += 1
        self.completed.set()
        self._revive()
        return True

    def _let_go(self, gone: LetGo) -> None:
        job = gone.job
        logger.warning("job %s: %s; attempt %d is let go of", job.job_id, gone.why, job.attempt)
        self._block.flag(job.index, job.fence, LOST)
        self._enforcer.take(job, at_once=gone.at_once)
        args = [job.job_id, job.fence, gone.kind, gone.why, self._node.owner, self._node.pid]
        self._left.append(LET_GO.with_(self._keys.script(job.job_id), args))

    def _report(self, done: Beat) -> None:
        if self._failures:
            logger.warning(
                "heartbeat: it is back after %d failed tries, %.1f s late", self._failures, self.lag
            )
            self._failures, self._complained = 0, float("-inf")
        for job in done.lost:
            logger.warning("job %s: attempt %d lost its lease; it is told to stop", job.job_id, job.attempt)
        for job in done.cancelled:
            logger.info("job %s: attempt %d was cancelled; it is told to stop", job.job_id, job.attempt)
        for job, problem in done.errors:
            self._complain("job %s: Redis refused a part of its heartbeat: %s", job.job_id, problem)

    def _complain(self, text: str, *args: object) -> None:
        if monotonic() - self._complained >= _COMPLAIN_EVERY:
            self._complained = monotonic()
            logger.error(text, *args)

    def _watch_until(self, due: float, watch: PidWatch, client: Any) -> None:
        while not self.stopping.is_set():
            self._bury(watch.follow(self._pids()))
            self._enforcer.look(watch.send)
            if (left := due - monotonic()) <= 0 or self._drain.pending:
                return
            if self._hurried.is_set():
                self._hurried.clear()
                return
            self._bury(watch.wait(min(left, _TELL_AFTER)))
            self._tell_what_arrived(client)

    def _tell_what_arrived(self, client: Any) -> None:
        """Hold messages before the next beat: a worker may die before it has made one with them."""
        in_hand = set(self._held.snapshot_older_than(_TELL_AFTER))
        new = in_hand - self._told
        self._told &= in_hand
        if not new:
            return
        try:
            self._beater.beat(client, [], new)
        except (RedisError, OSError):
            return  # the next beat tells of them too, and complains if it cannot
        self._told |= new

    def _pids(self) -> Iterable[int]:
        return (pid for _, _, pid in self._block.lives())

    def _bury(self, dead: Iterable[int]) -> None:
        gone = set(dead)
        for index, life, pid in list(self._block.lives()) if gone else ():
            if pid not in gone:
                continue
            self._block.read(index)
            job = self._block.last(index)
            self._block.bury(index, life)
            if job is not None and job.life == life:
                self._left += self._beater.locks.left_by(job)
                self._on_death(job)
        if self._left:
            self.hurry()

    def _about_me(self, running: int) -> Call:
        node, settings = self._node, self._settings
        args = [node.owner, round(settings.alive_for * 1e3), round(_REMEMBERED * 1e6)]
        args += ["name", node.name, "pid", node.pid, "running", running]
        args += ["beat_lag_ms", round(self.lag * 1e3), *self._about]
        return WORKER.with_([self._keys.worker(node.owner), self._keys.workers()], args)

    def _leave(self, client: Any) -> None:
        try:
            keys = [self._keys.worker(self._node.owner), self._keys.workers()]
            run_all(client, [LEAVE.with_(keys, [self._node.owner])])
        except (RedisError, OSError) as exc:
            logger.info(
                "heartbeat: could not sign off (%s); readers see it when %g s are over",
                exc,
                self._settings.alive_for,
            )
