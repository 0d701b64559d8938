"""Recoverers: any number of processes that look for what is left alone, and move it on.

A look and the moves that follow from it are steps of their own: what a recoverer has seen may long
have changed when it acts.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from model.attempts import child_of
from model.faults import Died, Faults, Unanswered
from model.producers import Order, Producers
from model.world import SETTINGS, World

from denyut.errors import DenyutError, UnknownJob
from denyut.scripts import run_all
from denyut.tasks.cancellation import cancel_job
from denyut.tasks.claim import us
from denyut.tasks.due import move_due
from denyut.tasks.finish import settle
from denyut.tasks.lost import LostMessages
from denyut.tasks.node import Node
from denyut.tasks.purge import purge_letters, purge_old
from denyut.tasks.recover import recover
from denyut.tasks.recovery import Recovery
from denyut.tasks.release import release_job
from denyut.tasks.reschedule import reschedule
from denyut.tasks.suspects import ask

_NODE = Node("recoverer", "r", 1)


class Recoverers:
    """The recovery threads of all workers."""

    def __init__(self, world: World, producers: Producers) -> None:
        self.world = world
        self.producers = producers
        self.recovery: Any = Recovery(world.pulse)
        # After an outage, and while the server is young, it waits by real clocks; here time is virtual.
        self.recovery._judged = lambda _client, lapsed: lapsed
        self.found: list[tuple[str, str]] = []  # what somebody has seen and not yet acted on
        self.graves: list[tuple[str, int, str | None]] = []

    def look(self, *, long: bool) -> None:
        """Look at all partitions."""
        with self.world.acting(_NODE):
            found, _, _ = self.recovery._overdue(self.world.client, 100, long_look=long)
        self.found += found

    def move(self, place: int, faults: Faults) -> None:
        """Move on one job that somebody found."""
        job_id, why = self.found.pop(place)
        try:
            with self.world.acting(_NODE, faults):
                if why != "lost" or LostMessages(self.world.pulse, self.world.client).has(job_id):
                    recover(self.world.pulse, job_id, why)
        except (Died, Unanswered):
            pass  # the next round of any recoverer
        self.hear()

    def let_one_run(self, faults: Faults) -> None:
        """The suspect whose turn it is runs again, alone."""
        client = self.world.client
        with suppress(Died, Unanswered), self.world.acting(_NODE, faults):
            [(holder, turn)] = run_all(client, [ask(self.world.pulse)])
            self.recovery._let_one_run(client, holder.decode(), turn.decode(), 10)
        self.hear()

    def hear(self) -> None:
        """Take over what is to be told to Celery."""
        self.graves += self.world.untold
        self.world.untold = []

    def publish_due(self, faults: Faults, *, grace: float | None = None) -> None:
        """A scheduler's look: what is due is published; what is later than ``grace`` (s) is skipped."""
        rules = "" if grace is None else f'{{"": {us(grace)}}}'
        try:
            with self.world.acting(_NODE, faults):
                due: list[str] = []
                for part in self.world.keys.all_partitions():
                    due += self.world.client.zrangebyscore(part.schedule, "-inf", self.world.now)
                move_due(self.world.pulse, [job_id.decode() for job_id in due], rules=rules)
        except (Died, Unanswered):
            pass
        self.hear()

    def bury(self, place: int, faults: Faults, *, tells: bool = True) -> None:
        """Tell Celery that a job is dead, and settle it: or die in between."""
        job_id, fence, digest = self.graves.pop(place)
        told = tells and self.producers.order_of(job_id).continues
        if told and self.producers.enqueue(Order(id=child_of(job_id)), faults) in ("died", "unanswered"):
            return
        try:
            with self.world.acting(_NODE, faults):
                settle(
                    self.world.pulse,
                    job_id,
                    fence,
                    digest=digest,
                    retention=SETTINGS.retention,
                    completed=False,
                )
        except (Died, Unanswered):
            pass

    def cancel(self, job_id: str, faults: Faults) -> None:
        """Somebody cancels a job."""
        with suppress(Died, Unanswered, UnknownJob), self.world.acting(_NODE, faults):
            cancel_job(self.world.pulse, job_id)
        self.hear()

    def release(self, job_id: str, faults: Faults) -> None:
        """Somebody takes a job away from the worker that runs it."""
        with suppress(Died, Unanswered, DenyutError), self.world.acting(_NODE, faults):
            release_job(self.world.pulse, job_id, reason="test")

    def reschedule(self, job_id: str, delay: float, faults: Faults) -> None:
        """Somebody gives a job another time."""
        with suppress(Died, Unanswered), self.world.acting(_NODE, faults):
            reschedule(self.world.pulse, job_id, countdown=delay)

    def purge(self, job_id: str, faults: Faults) -> None:
        """Somebody takes a dead letter off the list."""
        with suppress(Died, Unanswered), self.world.acting(_NODE, faults):
            purge_letters(self.world.pulse, [job_id])

    def purge_old(self) -> None:
        with self.world.acting(_NODE):
            purge_old(self.world.pulse, self.world.client)

    def round(self) -> None:
        """A whole look, and everything that follows."""
        self.look(long=True)  # while the queue is empty: what it does not have is lost
        while self.found:
            self.move(0, Faults())
        self.let_one_run(Faults())
        self.publish_due(Faults())
        while self.graves:
            self.bury(0, Faults())
