"""One beat: what all slots say, in one round trip to Redis, and what Redis answers, back into the slots."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from denyut.scripts import Script, run_all
from denyut.signals.procfs import Usage, usage
from denyut.tasks.slots import CANCEL, LOST, SlotState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from denyut.config import Settings
    from denyut.keys import Keys
    from denyut.scripts import Call
    from denyut.tasks.slots import SlotBlock

__all__ = ["Beat", "Beater"]

BEAT = Script("denyut.signals", "beat")

#: Most jobs in one call: a call of 500 holds Redis up for about 2.5 ms.
CHUNK = 500


@dataclass(slots=True)
class Beat:
    """What one beat found: the jobs it renewed, and those whose lease is lost or that are cancelled."""

    jobs: list[SlotState] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)


class Beater:
    """Makes beats for one worker. Used by one thread; imports neither Celery nor SQLAlchemy.

    Args:
        settings: of the app.
        keys: of the app.
        block: the worker's slots.
    """

    def __init__(self, settings: Settings, keys: Keys, block: SlotBlock) -> None:
        self._settings = settings
        self._keys = keys
        self._block = block
        self._version = 0

    def jobs(self) -> list[SlotState]:
        """Return the running jobs. A slot that cannot be read now counts as its last good copy."""
        found = []
        for index, state in self._block.active():
            good = state if isinstance(state, SlotState) else self._block.last(index)
            if good is not None:
                found.append(good)
        return found

    def beat(self, client: Any, held: Iterable[str], lag: float) -> Beat:
        """Renew everything in one round trip and flag what is lost or cancelled.

        Args:
            client: a Redis client of the calling thread's own.
            held: ids of the messages in hand.
            lag: seconds that this beat is late.

        Raises:
            redis.exceptions.RedisError: nothing is known; beat again.
        """
        done = Beat(jobs=self.jobs())
        self._version += 1
        for lost, cancelled in run_all(client, self._calls(done.jobs, held, lag)):
            done.lost += [job_id.decode() for job_id in lost]
            done.cancelled += [job_id.decode() for job_id in cancelled]
        self._flag(done)
        return done

    def _flag(self, done: Beat) -> None:
        lost, cancelled = set(done.lost), set(done.cancelled)
        for job in done.jobs:
            bits = LOST * (job.job_id in lost) | CANCEL * (job.job_id in cancelled)
            if bits:
                self._block.flag(job.index, job.fence, bits)

    def _calls(self, jobs: list[SlotState], held: Iterable[str], lag: float) -> list[Call]:
        by_partition: dict[int, list[SlotState]] = defaultdict(list)
        for job in jobs:
            by_partition[job.partition].append(job)
        in_hand: dict[int, list[str]] = defaultdict(list)
        for job_id in held:
            in_hand[self._keys.partition_of(job_id)].append(job_id)
        calls: list[Call] = []
        for number in by_partition.keys() | in_hand.keys():
            mine, messages = by_partition[number], in_hand[number]
            for start in range(0, max(len(mine), len(messages), 1), CHUNK):
                part, some = mine[start : start + CHUNK], messages[start : start + CHUNK]
                calls.append(self._call(number, part, some, lag))
        return calls

    def _call(self, number: int, jobs: list[SlotState], held: list[str], lag: float) -> Call:
        settings, partition = self._settings, self._keys.partition(number)
        names = [partition.leases, partition.held]
        ttl, alive = round(settings.lease_ttl * 1e6), round(settings.alive_for * 1e3)
        args: list[Any] = [ttl, alive, round(settings.retention * 1e3), len(jobs)]
        for job in jobs:
            keys = self._keys.job(job.job_id)
            names += [keys.record, keys.lease, keys.alive, keys.telemetry, keys.events]
            args += _arguments(job, usage(job.pid), lag, self._version)
        return BEAT.with_(names, [*args, *held])


def _arguments(job: SlotState, used: Usage | None, lag: float, version: int) -> list[Any]:
    """Return the 14 arguments of one job: see beat.lua."""
    part = job.done / job.total if job.done is not None and job.total else None
    return [
        job.job_id,
        job.fence,
        job.attempt,
        job.progress_seq,
        _number(job.done),
        _number(job.total),
        _number(part),
        job.unit,
        job.stage_seq,
        f"{used.rss_mb:.1f}" if used else "",
        f"{used.cpu_s:.2f}" if used else "",
        round(lag * 1000),
        f"{job.owner}/{version}",
        job.stage,
    ]


def _number(value: float | None) -> str:
    return "" if value is None else repr(int(value) if value == int(value) else value)
