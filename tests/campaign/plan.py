"""What a campaign sends, drawn from its seed: the jobs, by whom, in which order, how often."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

#: Kinds of keyed jobs, and how many of a hundred are of each.
KINDS = {"plain": 60, "again": 12, "later": 10, "linked": 17, "poison": 1}
#: Of a hundred jobs, how many are parts of a chord. They are sent by a producer that is not killed.
IN_CHORDS = 10
PARTS = 3
#: Of a hundred keyed jobs, how many both producers send.
SHARED = 20


@dataclass(frozen=True, slots=True)
class Job:
    """One keyed job."""

    n: int
    kind: str


@dataclass(frozen=True, slots=True)
class Plan:
    """All of it. ``jobs`` by number; ``chords`` are numbers of their own."""

    jobs: dict[int, Job]
    chords: list[int]
    #: For each producer, the numbers that it sends, in order.
    orders: list[list[int]]

    @property
    def size(self) -> int:
        """How many jobs are sent: keyed ones and parts; links and bodies come from these."""
        return len(self.jobs) + PARTS * len(self.chords)


def make_plan(seed: int, size: int, producers: int = 2) -> Plan:
    """Draw a plan of about ``size`` jobs."""
    draw = Random(f"plan/{seed}")
    chords = list(range(size * IN_CHORDS // 100 // PARTS))
    numbers = range(size - PARTS * len(chords))
    kinds = draw.choices(list(KINDS), list(KINDS.values()), k=len(numbers))
    jobs = {n: Job(n, kind) for n, kind in zip(numbers, kinds, strict=True)}
    orders: list[list[int]] = [[] for _ in range(producers)]
    for n in numbers:
        senders = range(producers) if draw.randrange(100) < SHARED else [draw.randrange(producers)]
        for i in senders:
            orders[i].append(n)
    for order in orders:
        draw.shuffle(order)
    return Plan(jobs, chords, orders)
