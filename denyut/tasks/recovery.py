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
from denyut.tasks.purge import purge_old
from denyut.tasks.recover import recover, recover_lost_child
from denyut.tasks.suspects import ask, is_over

if TYPE_CHECKING:
    from denyut.app import Denyut
    from denyut.tasks.slots import SlotState

__all__ = ["Recovery"]

OVERDUE = Script("denyut.tasks", "overdue")

logger = logging.getLogger(__name__)

#: Time between two looks whether the next suspect may have its turn (s).
_NEXT_TURN = 0.05
#: Time between two looks for dead letters that are over their retention (s).
_TIDY_EVERY = 10.0


class Recovery(Service):
    """The recovery of one worker.

    Args:
        pulse: the app's Denyut.
    """

    thread_name = "denyut-recovery"

    def __init__(self, pulse: Denyut) -> None:
        super().__init__()
        self.pulse = pulse
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
            try:
                moved = self.step()
            except (RedisError, OperationalError, OSError) as exc:
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

    def _most(self) -> int:
        settings = self.pulse.settings
        return max(1, round(settings.recovery_rate * settings.recovery_interval))

    def _is_long_look(self) -> bool:
        if monotonic() - self._last_long_look < self.pulse.settings.queued_timeout / 4:
            return False
        self._last_long_look = monotonic()
        return True

    def _overdue(
        self, client: Any, most: int, *, long_look: bool
    ) -> tuple[list[tuple[str, str]], bytes, bytes]:
        settings = self.pulse.settings
        timeout = us(settings.queued_timeout) if long_look else 0
        args = [most, timeout, us(settings.retention)]
        calls = [
            OVERDUE.with_([p.leases, p.held, p.queued, p.done], [*args, self._waiting.begin(p), PAGE])
            for p in self.pulse.keys.all_partitions()
        ]
        found: dict[str, str] = {}
        pages: list[list[bytes]] = []
        *looks, (holder, turn) = run_all(client, [*calls, ask(self.pulse)])
        for lapsed, held, long in looks:
            found |= {job_id.decode(): "lapsed" for job_id in [*lapsed, *held]}
            pages.append(long)
        # Those that are known to be alone come first.
        waiting = self._waiting.lost(client, pages) if long_look else []
        found = found | {job_id: "lost" for job_id in waiting if job_id not in found}
        return list(found.items()), holder, turn
