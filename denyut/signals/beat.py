"""One beat: what all slots say, in one round trip to Redis, and what Redis answers, back into the slots."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from time import monotonic, monotonic_ns
from typing import TYPE_CHECKING, Any

from denyut.scripts import Script, run_all
from denyut.signals.locks import JobLocks
from denyut.signals.procfs import Usage, usage
from denyut.tasks.slots import CANCEL, LOST, SlotState
from denyut.tasks.told import told

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from denyut.config import Settings
    from denyut.keys import Keys
    from denyut.scripts import Call
    from denyut.tasks.slots import SlotBlock

__all__ = ["Beat", "Beater"]

BEAT = Script("denyut.signals", "beat")

#: Most jobs in one call, so that a beat of many does not hold Redis up (some ms each).
CHUNK = 500

#: Entries kept of a job's event stream, about; as in denyut/lua/job.lua.
EVENTS_MOST = 1000


@dataclass(slots=True)
class Beat:
    """What one beat did: the running jobs, which of them lost their lease or are cancelled, and what failed.

    ``lost`` and ``cancelled`` name a job once, in the beat that learned it. ``errors`` are jobs that
    could not be renewed or written in full, with Redis' reason.
    """

    jobs: list[SlotState] = field(default_factory=list)
    lost: list[SlotState] = field(default_factory=list)
    cancelled: list[SlotState] = field(default_factory=list)
    errors: list[tuple[SlotState, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Part:
    partition: int
    jobs: Sequence[SlotState]
    held: Sequence[str]


class Beater:
    """Makes beats for one worker. Used by one thread; imports neither Celery nor SQLAlchemy.

    Args:
        settings: of the app.
        keys: of the app.
        block: the worker's slots.
        chunk: most jobs in one call.
    """

    def __init__(self, settings: Settings, keys: Keys, block: SlotBlock, *, chunk: int = CHUNK) -> None:
        self._settings = settings
        self._keys = keys
        self._block = block
        self._chunk = chunk
        self.locks = JobLocks(settings, keys, block)
        self._version = 0
        self._answered = monotonic()  # when the last beat was sent that was answered

    def jobs(self) -> list[SlotState]:
        """Return the running jobs. A slot that cannot be read now counts as its last good copy."""
        found = []
        for index, state in self._block.active():
            good = state if isinstance(state, SlotState) else self._block.last(index)
            if good is not None:
                found.append(good)
        return found

    def beat(
        self,
        client: Any,
        jobs: list[SlotState],
        held: Iterable[str] = (),
        *,
        lag: float = 0.0,
        more: Sequence[Call] = (),
        draining: Callable[[SlotState], bool] = lambda _: False,
    ) -> Beat:
        """Renew everything in one round trip and flag what is lost or cancelled.

        Args:
            client: a Redis client of the calling thread's own.
            jobs: what :meth:`jobs` has just returned.
            held: ids of the messages in hand.
            lag: seconds that this beat is late.
            more: calls that go along in the same round trip.
            draining: whether the worker is ending a job, so that its end is nobody's crash.

        Raises:
            redis.exceptions.RedisError: nothing is known; beat again.
        """
        done = Beat(jobs=jobs)
        # Of the clock, so that a heartbeat that was started again goes on where the last one was.
        self._version = max(self._version + 1, monotonic_ns() // 1_000_000)
        parts = self._parts(done.jobs, held)
        used = {pid: usage(pid) for pid in {job.pid for job in jobs}}
        calls = [self._call(part, lag, used, draining) for part in parts]
        locks = self.locks.calls(jobs)
        sent = monotonic()
        replies = run_all(client, [*calls, *more, *locks])
        self._answered = sent
        self.locks.answer(replies[len(replies) - len(locks) :], sent)
        for part, reply in zip(parts, replies[: len(parts)], strict=True):
            self._apply(done, part, reply)
        return done

    def _apply(self, done: Beat, part: _Part, reply: Any) -> None:
        lost, cancelled, errors = reply
        for places, bit, news in ((lost, LOST, done.lost), (cancelled, CANCEL, done.cancelled)):
            for job in (part.jobs[place] for place in places):
                if self._block.flag(job.index, job.fence, bit) and not job.flags & bit:
                    news.append(job)
        done.errors += [
            (part.jobs[place], problem.decode("utf-8", "replace"))
            for place, problem in zip(errors[::2], errors[1::2], strict=True)
        ]

    def _parts(self, jobs: list[SlotState], held: Iterable[str]) -> list[_Part]:
        running: dict[int, list[SlotState]] = defaultdict(list)
        for job in jobs:
            running[job.partition].append(job)
        in_hand: dict[int, list[str]] = defaultdict(list)
        started = {job.job_id for job in jobs}
        for job_id in held:
            if job_id not in started:
                in_hand[self._keys.partition_of(job_id)].append(job_id)
        return [
            _Part(number, running[number][at : at + self._chunk], in_hand[number][at : at + self._chunk])
            for number in sorted(running.keys() | in_hand.keys())
            for at in range(0, max(len(running[number]), len(in_hand[number])), self._chunk)
        ]

    def _call(
        self,
        part: _Part,
        lag: float,
        used: Mapping[int, Usage | None],
        draining: Callable[[SlotState], bool] = lambda _: False,
    ) -> Call:
        settings, indexes = self._settings, self._keys.partition(part.partition)
        # Longer than a lease: telemetry must not vanish between two beats, however short retention is.
        keep = max(settings.retention, 2 * settings.lease_ttl)
        args: list[Any] = [round(settings.lease_ttl * 1e6), round(settings.alive_for * 1e3)]
        args += [round(keep * 1e3), EVENTS_MOST, self._version, round(lag * 1e3), len(part.jobs)]
        args += [round((monotonic() - self._answered) * 1e6), "1" if self._keys.stored else ""]
        names = [indexes.leases, indexes.held, indexes.outbox]
        for job in part.jobs:
            keys = self._keys.job(job.job_id)
            names += (keys.record, keys.lease, keys.alive, keys.telemetry, keys.events)
            args += _arguments(job, used[job.pid], draining=draining(job))
        names += [self._keys.job(job_id).record for job_id in part.held]
        return BEAT.with_(names, [*args, *part.held])


def _arguments(job: SlotState, used: Usage | None, *, draining: bool) -> tuple[Any, ...]:
    return (
        *(job.job_id, job.owner, job.fence, job.attempt, *told(job)),
        *(_rounded(used and used.rss_mb), _rounded(used and used.rss_peak_mb), _rounded(used and used.cpu_s)),
        "1" if draining else "",
    )


def _rounded(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
