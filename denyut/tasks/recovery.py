"""Recovery: finding the jobs that are left alone, and moving them on.

A thread of every worker's main process. Any number may run: each step is one atomic script per job.
It finds attempts whose lease has lapsed (their worker is gone), jobs whose prefetching worker is
gone, and jobs queued for long whose queue is empty or has gone on to much younger jobs (their
message is lost; a copy of one that is not does no harm). What is due is :mod:`denyut.tasks.schedule`'s.
It has the message, so it needs neither the broker's redelivery nor the task's code.

It does not judge by age: a job whose lease is renewed is never touched.
"""

from __future__ import annotations

import logging
from random import uniform
from time import monotonic
from typing import TYPE_CHECKING, Any

from kombu.exceptions import ContentDisallowed, EncodeError, OperationalError
from redis.exceptions import RedisError

from denyut.scripts import Script, run_all
from denyut.service import Service
from denyut.tasks.claim import us
from denyut.tasks.lost import PAGE, LostMessages, WaitingJobs
from denyut.tasks.patience import PASSING
from denyut.tasks.purge import purge_old
from denyut.tasks.recover import recover, recover_lost_child
from denyut.tasks.suspects import ask, is_over

if TYPE_CHECKING:
    from collections.abc import Callable

    from denyut.app import Denyut
    from denyut.tasks.slots import SlotState

__all__ = ["Recovery"]

OVERDUE = Script("denyut.tasks", "overdue")

logger = logging.getLogger(__name__)

#: How long a job may be queued in an empty queue before its message is taken for lost (s). A message is on
#: its way from queue to worker for much less, and a worker that has it says so within a quarter of a second.
_EMPTY_AFTER = 10.0
#: Time between two looks whether the next suspect may have its turn (s).
_NEXT_TURN = 0.05
#: Time between two looks for dead letters that are over their retention (s).
_TIDY_EVERY = 10.0


class Recovery(Service):
    """The recovery of one worker.

    Args:
        pulse: the app's Denyut.
        revive: called at each look, to start other threads of this worker again that have died.
    """

    thread_name = "denyut-recovery"

    def __init__(self, pulse: Denyut, revive: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self.pulse = pulse
        self._revive = revive
        self._outage = False  # whether Redis could not be reached by the last look
        self._judges_from = 0.0  # leases that have lapsed are looked at from then on
        self.rounds = 0  # complete looks at all partitions; tests wait for it
        self._line = False  # whether suspects wait for their turn
        self._last_long_look = self._last_tidy = monotonic()
        self._waiting = WaitingJobs(pulse)

    def child_died(self, slot: SlotState, *, drained: bool = False) -> None:
        """Hand over the job of a pool process that is known to be dead; ``drained``: on purpose."""
        recover_lost_child(self.pulse, slot.job_id, slot.pid, -1, drained=drained)

    def step(self) -> int:
        """Look once at all partitions and move on what is left alone. Returns how many jobs were moved."""
        client = self.pulse.store.client
        lost = LostMessages(self.pulse, client)
        moved, suspects = 0, 0
        most = self._most()
        overdue, holder, turn = self._overdue(client, most, long_look=self._is_long_look())
        for job_id, why in overdue[:most]:
            try:
                if why != "lost" or lost.has(job_id):
                    what = recover(self.pulse, job_id, why)
                    moved += what != "NOTHING"
                    suspects += what == "SUSPECT"
            except (ValueError, KeyError, EncodeError, ContentDisallowed):
                # Its message cannot be read. The others must not wait for it.
                logger.exception("recovery: job %s could not be moved on", job_id)
        if suspects and not turn:
            [(holder, turn)] = run_all(client, [ask(self.pulse)])
        self._line = bool(holder or turn)
        if self._line:
            moved += self._let_one_run(client, holder.decode(), turn.decode(), most)
        if monotonic() - self._last_tidy > _TIDY_EVERY:
            self._last_tidy = monotonic()
            purge_old(self.pulse, client)
        self.rounds += 1
        return moved

    def _let_one_run(self, client: Any, holder: str, turn: str, most: int) -> int:
        """Publish the suspect whose turn has begun, or begins because the one before has ended."""
        for _ in range(most):
            if not turn and is_over(self.pulse, client, holder):
                [replies] = run_all(client, [ask(self.pulse, holder)])
                holder, turn = (reply.decode() for reply in replies)
            if not (turn or holder):
                return 0
            # Also one whose turn had begun before: who began it may have died before it was published.
            if recover(self.pulse, turn or holder, "turn") != "NOTHING":
                return 1
            if not turn:
                return 0
            holder, turn = turn, ""
        return 0

    def interrupt(self) -> None:
        """Nothing to do: the pause ends when it is asked to stop."""

    def run(self) -> None:
        """Look again and again."""
        while not self.stopping.is_set():
            moved = 0
            self._revive()
            try:
                moved = self.step()
            except (RedisError, OperationalError, OSError) as exc:
                self._outage |= isinstance(exc, PASSING)
                logger.warning("recovery: %s: %s; trying again", type(exc).__name__, exc)
            except Exception:  # one broken job must not end the recovery of all others
                logger.exception("recovery: unexpected error; trying again")
            # Jitter, so that many workers do not look at the same moment; no pause in a mass recovery
            # but what the rate demands.
            pause = self.pulse.settings.recovery_interval * uniform(0.7, 1.3)  # noqa: S311 - no secret
            if moved >= self._most():
                pause = moved / self.pulse.settings.recovery_rate
            self._rest(pause)

    def _rest(self, pause: float) -> None:
        """Wait until the next look; meanwhile suspects that wait take turns without that pause."""
        end = monotonic() + pause
        client = self.pulse.store.client
        while self._line and not self.stopping.wait(min(_NEXT_TURN, max(end - monotonic(), 0.0))):
            if monotonic() >= end:
                return
            try:
                [(holder, turn)] = run_all(client, [ask(self.pulse)])
                self._line = bool(holder or turn)
                if self._line:
                    self._let_one_run(client, holder.decode(), turn.decode(), self._most())
            except (RedisError, OperationalError, OSError) as exc:
                logger.warning("recovery: %s: %s; trying again", type(exc).__name__, exc)
                break
        self.stopping.wait(max(end - monotonic(), 0.0))

    def _judged(self, client: Any, lapsed: dict[str, str]) -> dict[str, str]:
        """Return those of the jobs with a lapsed lease of which that says that their worker is gone.

        When Redis has been away, every lease may have lapsed, and every worker be well: they are given
        the time of a lease to come back first.
        """
        ttl, now = self.pulse.settings.lease_ttl, monotonic()
        if self._outage:
            self._outage, self._judges_from = False, now + ttl
        if not lapsed or now < self._judges_from:
            return {}
        info = client.info("server")
        if info["uptime_in_seconds"] >= ttl:
            return lapsed
        # It has just been started. What it has not read from its disk began after that.
        started = info["server_time_usec"] - (info["uptime_in_seconds"] + 1) * 1_000_000
        return {job_id: why for job_id, why in lapsed.items() if self._began(client, job_id) >= started}

    def _began(self, client: Any, job_id: str) -> int:
        keys = self.pulse.keys
        return int(client.get(keys.partition(keys.partition_of(job_id)).marker) or 0)

    def _most(self) -> int:
        settings = self.pulse.settings
        return max(1, round(settings.recovery_rate * settings.recovery_interval))

    def _is_long_look(self) -> bool:
        if monotonic() - self._last_long_look < self._timeout() / 2:
            return False
        self._last_long_look = monotonic()
        return True

    def _timeout(self) -> float:
        """Seconds after which a queued job is looked for; if its queue is empty, it is lost."""
        return min(self.pulse.settings.queued_timeout, _EMPTY_AFTER)

    def _overdue(
        self, client: Any, most: int, *, long_look: bool
    ) -> tuple[list[tuple[str, str]], bytes, bytes]:
        settings = self.pulse.settings
        timeout = us(self._timeout()) if long_look else 0
        args = [most, timeout, us(settings.retention)]
        calls = [
            OVERDUE.with_(
                [p.leases, p.held, p.queued, p.done, *([p.outbox] if self.pulse.keys.stored else [])],
                [*args, self._waiting.begin(p), PAGE],
            )
            for p in self.pulse.keys.all_partitions()
        ]
        alone: dict[str, str] = {}
        found: dict[str, str] = {}
        pages: list[list[bytes]] = []
        asked = monotonic()
        *looks, (holder, turn) = run_all(client, [*calls, ask(self.pulse)])
        if monotonic() - asked > settings.beat_interval:  # it hung, and so did the beats
            self._outage = True
        for lapsed, held, long in looks:
            alone |= {job_id.decode(): "lapsed" for job_id in lapsed}
            found |= {job_id.decode(): "lapsed" for job_id in held}
            pages.append(long)
        # Those that are known to be alone come first.
        found = self._judged(client, alone) | {i: why for i, why in found.items() if i not in alone}
        waiting = self._waiting.lost(client, pages) if long_look else []
        found |= {i: "lost" for i in waiting if i not in alone and i not in found}
        return list(found.items()), holder, turn
