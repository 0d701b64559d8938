"""The schedule: publishing jobs when their time comes.

A thread of every worker's main process. One of them, whoever holds a lease of 0.2 s, looks at the
schedules of all partitions ten times a second, and at the very moment when the next job that it knows
is due; the others stand by and ask for the lease when it can have lapsed. Where two look at once, each
job is still published once: every step is one atomic script.
"""

from __future__ import annotations

import logging
from math import inf
from random import uniform
from typing import TYPE_CHECKING, Any

from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from denyut.scripts import Script
from denyut.service import Service
from denyut.tasks.due import move_due
from denyut.tasks.misfire import misfire_rules
from denyut.tasks.node import current_node

if TYPE_CHECKING:
    from collections.abc import Callable

    from denyut.app import Denyut

__all__ = ["Schedule"]

WATCH = Script("denyut.tasks", "watch_schedule")

logger = logging.getLogger(__name__)

#: Time between two looks (s) with sixteen partitions; more partitions are looked at less often,
#: down to a fifth of a second.
_LOOK_EVERY = 0.1
_LOOK_AT_LEAST_EVERY = 0.2
#: How long the watching worker may be silent before another takes over, in looks.
_LEASE_LOOKS = 2
#: Standing by: all workers together ask for the lease at most so often a second.
_ASK_RATE = 100
#: Most jobs of one partition, and most of all, that one look moves on.
_MOST_OF_ONE = 64
_MOST = 256
#: Pause after an error (s): one that is broken must not ask for ever.
_AFTER_ERROR = 0.25


class Schedule(Service):
    """The scheduler of one worker.

    Args:
        pulse: the app's Denyut.
        events: whether Celery's watchers (Flower) want to hear of jobs that are skipped.
    """

    thread_name = "denyut-schedule"

    def __init__(self, pulse: Denyut, *, events: Callable[[], bool] = lambda: False) -> None:
        super().__init__()
        self.pulse = pulse
        self.events = events
        self.watching = False
        self.looks = 0  # complete looks at all partitions; tests wait for it
        self._broken = ""
        parts = pulse.keys.partitions
        self._every = min(_LOOK_EVERY * max(parts / 16, 1), _LOOK_AT_LEAST_EVERY)

    def run(self) -> None:
        """Look again and again."""
        while not self.stopping.is_set():
            try:
                pause = self.step()
                self._broken = ""
            except (RedisError, OperationalError, OSError) as exc:
                self._say_once(exc)
                pause = _AFTER_ERROR
            except Exception:  # one broken job must not end the schedule of all others
                logger.exception("schedule: unexpected error; trying again")
                pause = _AFTER_ERROR
            self.stopping.wait(pause)

    def interrupt(self) -> None:
        """Nothing to do: the pause ends when it is asked to stop."""

    def step(self) -> float:
        """Ask whether to watch, and do so; returns the seconds until the next step."""
        keys, client = self.pulse.keys, self.pulse.store.client
        ttl = round(self._every * _LEASE_LOOKS * 1000)
        names = [keys.schedule_watch(), keys.workers()]
        reply: list[int] = WATCH(client, names, [current_node().owner, ttl])
        mine, left, workers = reply
        self.watching = bool(mine)
        if not self.watching:
            return max(left, 1) / 1000 + uniform(0, 2 * workers / _ASK_RATE)  # noqa: S311 - no secret
        next_due = self.look()
        return min(next_due, self._every)

    def look(self) -> float:
        """Move on what is due in all partitions; returns the seconds until the next job is due (or more)."""
        pipe = self.pulse.store.client.pipeline(transaction=False)
        pipe.time()
        for partition in self.pulse.keys.all_partitions():
            pipe.zrange(partition.schedule, 0, 0, withscores=True)
        (seconds, micros), *firsts = pipe.execute()
        now = seconds * 1_000_000 + micros
        times: list[float] = [found[0][1] if found else inf for found in firsts]
        due = [number for number, time in enumerate(times) if time <= now]
        if due:
            rules = misfire_rules(self.pulse)
            move_due(self.pulse, self._due(due, now), rules=rules, events=self.events())
        self.looks += 1
        return float(max(0.0, (min(times) - now) / 1e6))

    def _due(self, partitions: list[int], now: int) -> list[str]:
        """Return jobs that are due, those first that have been for the longest."""
        pipe = self.pulse.store.client.pipeline(transaction=False)
        for number in partitions:
            key = self.pulse.keys.partition(number).schedule
            pipe.zrangebyscore(key, "-inf", now, start=0, num=_MOST_OF_ONE, withscores=True)
        found: list[tuple[float, bytes]] = [(score, i) for page in pipe.execute() for i, score in page]
        return [job_id.decode() for _, job_id in sorted(found)[:_MOST]]

    def _say_once(self, exc: Any) -> None:
        if self._broken != type(exc).__name__:
            logger.warning("schedule: %s: %s; trying again", type(exc).__name__, exc)
        self._broken = type(exc).__name__
