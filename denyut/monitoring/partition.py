"""What the indexes and counters of a partition say: for metrics and the doctor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from denyut.scripts import Script, run_all
from denyut.states import TERMINAL

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["Partition", "read_partitions"]

PARTITION = Script("denyut.monitoring", "partition")

_ACCEPTED = ("enqueued", "adopted")
_ENDED = (*(state.lower() for state in sorted(TERMINAL)), "unpublished")


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """One partition at ``now_us``. Times are microseconds of Redis' clock; None if there is no job.

    ``leases`` gives the deadline of every job that holds a lease: those that run, and those that have
    ended and whose callbacks are not sent yet. What is ``held`` is ``queued``, too. ``locks`` counts those of
    the user's own code.
    """

    now_us: int
    counters: dict[str, int]
    leases: dict[str, int]
    scheduled: int
    queued: int
    held: int
    done: int
    first_due: int | None
    first_queued: int | None
    locks: int = 0

    @classmethod
    def from_reply(cls, reply: list[Any]) -> Partition:
        """Build it from the reply of the script."""
        now, counters, leases, scheduled, queued, held, done, first_due, first_queued, locks = reply
        return cls(
            now_us=int(now),
            counters={name: int(count) for name, count in _pairs(counters)},
            leases={job_id: _time(deadline) for job_id, deadline in _pairs(leases)},
            scheduled=scheduled,
            queued=queued,
            held=held,
            done=done,
            first_due=_time(first_due) if first_due else None,
            first_queued=_time(first_queued) if first_queued else None,
            locks=locks,
        )

    @property
    def accepted(self) -> int:
        """How many jobs were ever accepted."""
        return self._counted(_ACCEPTED)

    @property
    def ended(self) -> int:
        """How many of them have ended."""
        return self._counted(_ENDED)

    @property
    def missing(self) -> int:
        """How many accepted jobs have neither ended nor are in an index.

        Jobs that have ended and still hold a lease are in both, and make this less than it is.
        """
        return max(self.accepted - self.ended - len(self.leases) - self.queued - self.scheduled, 0)

    @property
    def lapsed(self) -> dict[str, int]:
        """The leases whose deadline has passed."""
        return {job_id: deadline for job_id, deadline in self.leases.items() if deadline < self.now_us}

    def _counted(self, events: tuple[str, ...]) -> int:
        return sum(count for name, count in self.counters.items() if name.partition(":")[0] in events)


def read_partitions(pulse: Denyut, client: Any) -> list[Partition]:
    """Read all partitions, each at one moment, in one pipelined round trip.

    Raises:
        redis.exceptions.RedisError: if they cannot be read.
    """
    calls = [
        PARTITION.with_(
            [keys.leases, keys.schedule, keys.queued, keys.held, keys.done, keys.counters, keys.locks]
        )
        for keys in pulse.keys.all_partitions()
    ]
    return [Partition.from_reply(reply) for reply in run_all(client, calls)]


def _pairs(flat: list[bytes]) -> list[tuple[str, bytes]]:
    return [
        (name.decode("utf-8", "replace"), value) for name, value in zip(flat[::2], flat[1::2], strict=True)
    ]


def _time(score: bytes) -> int:
    return int(float(score))  # Redis writes large scores as 1.7e+15
