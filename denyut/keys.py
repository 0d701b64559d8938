"""The names of every key in Redis. No other module builds one.

The keyspace is split into partitions; ``{P}`` is the Redis Cluster hash tag, so that everything
one script touches sits in one slot. A job lives in the partition of its id, an idempotency key
in the partition of its digest, a stream in the partition of its shard (``{mS}``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    from denyut.config import Settings

__all__ = ["JobKeys", "Keys", "LockKeys", "PartitionKeys", "StreamKeys"]

_HEX = tuple(bytes((digit,)) for digit in b"0123456789abcdef")
_RESERVED = ("alive:", "telemetry:", "events:", ":")


@dataclass(frozen=True, slots=True)
class JobKeys:
    """The keys of one job."""

    partition: int
    record: str  # Hash: the job record (denyut.tasks.record)
    lease: str  # String, PX: "<owner>#<fence>"
    alive: str  # String, PX: present while beats arrive
    telemetry: str  # Hash: the current snapshot
    events: str  # Stream: checkpoints, stages, transitions


@dataclass(frozen=True, slots=True)
class PartitionKeys:
    """The indexes of one partition."""

    partition: int
    leases: str  # ZSET id -> lease deadline (us)
    schedule: str  # ZSET id -> due time (us)
    queued: str  # ZSET id -> time it was queued (us)
    held: str  # ZSET id -> deadline (us) of the process that is to move a queued job on
    done: str  # ZSET id -> time it became terminal (us)
    dead: str  # ZSET id -> time its budget was spent (us): the dead letter
    refused: str  # Hash id -> why the job store refuses the job
    outbox: str  # ZSET id -> since when it has changes that the job store has not seen (us)
    counters: str  # Hash "<what>:<task>" -> count
    marker: str  # String: when this partition was first used (us); gone if Redis lost its data
    locks: str  # ZSET name -> when the hold of a lock of the user's is over unless it is renewed (us)


@dataclass(frozen=True, slots=True)
class LockKeys:
    """The keys of one lock of the user's own, and those that all locks of its partition share."""

    partition: int
    lock: str  # Hash: token, fence, until, who has it
    wake: str  # List: the baton for whoever has waited longest
    locks: str  # as in PartitionKeys
    fences: str  # String: the highest fence given in this partition
    freed: str  # ZSET token -> until when it is known as released (us)
    counters: str  # as in PartitionKeys


@dataclass(frozen=True, slots=True)
class StreamKeys:
    """The keys of one median stream."""

    shard: int
    lower: str  # ZSET: the lower half (max-heap), member = event id
    upper: str  # ZSET: the upper half (min-heap)
    state: str  # Hash: version, count, median, ...


class Keys:
    """Builds key names for one deployment.

    Args:
        prefix: first part of every key, such as ``denyut``.
        partitions: number of parts the job keyspace is split into.
        stored: whether there is a job store: then scripts mark what it has not seen in the outbox.
    """

    def __init__(self, prefix: str = "denyut", partitions: int = 16, *, stored: bool = False) -> None:
        self.prefix = prefix
        self.partitions = partitions
        self.stored = stored
        self._partition_keys = tuple(self._make_partition(p) for p in range(partitions))

    @classmethod
    def of(cls, settings: Settings) -> Keys:
        """Return the key names of the deployment with these settings, with a store if it has a database."""
        return cls(settings.prefix, settings.partitions, stored=settings.database_url is not None)

    def partition_of(self, job_id: str) -> int:
        """Return the partition of a job id (or of a key digest): CRC-32 modulo partitions."""
        return crc32(job_id.encode()) % self.partitions

    def last_digit(self, start: str, partition: int) -> str | None:
        """Return the hex digit that takes the id ``start`` + digit into ``partition``; None if none does."""
        so_far = crc32(start.encode())
        fitting = (d for d in _HEX if crc32(d, so_far) % self.partitions == partition)
        found = next(fitting, None)
        return None if found is None else found.decode()

    def job(self, job_id: str) -> JobKeys:
        """Return the keys of the job ``job_id``."""
        p = self.partition_of(job_id)
        base = f"{self.prefix}:{{{p}}}"
        # An id is anything a client sends: "alive:x" must not have the alive key of "x" as its record.
        escape = ":" if job_id.startswith(_RESERVED) else ""
        return JobKeys(
            p,
            f"{base}:job:{escape}{job_id}",
            f"{base}:lock:job:{job_id}",
            f"{base}:job:alive:{job_id}",
            f"{base}:job:telemetry:{job_id}",
            f"{base}:job:events:{job_id}",
        )

    def script(self, job_id: str, digest: str | None = None) -> tuple[str, ...]:
        """Return the KEYS of every job script, in the order of ``denyut/lua/job.lua``.

        The thirteenth is the entry of the job's idempotency key if that lives in the job's partition,
        else a name that is never written. The last, the dead letter, came later: a new key is appended,
        so that the others keep their places. With a job store a fifteenth follows, the outbox.
        """
        job = self.job(job_id)
        part = self._partition_keys[job.partition]
        here = digest is not None and self.partition_of(digest) == job.partition
        entry = f"{self.prefix}:{{{job.partition}}}:key:{digest if here else '-'}"
        return (
            *(job.record, job.lease, job.alive, job.telemetry, job.events),
            *(part.leases, part.schedule, part.queued, part.held, part.done, part.counters, part.marker),
            entry,
            part.dead,
            *((part.outbox,) if self.stored else ()),
        )

    def idempotency(self, digest: str) -> str:
        """Return the key of the entry (Hash: job, fp, at) of an idempotency key's digest."""
        return f"{self.prefix}:{{{self.partition_of(digest)}}}:key:{digest}"

    def partition(self, number: int) -> PartitionKeys:
        """Return the indexes of partition ``number``."""
        return self._partition_keys[number]

    def all_partitions(self) -> tuple[PartitionKeys, ...]:
        """Return the indexes of every partition."""
        return self._partition_keys

    def _make_partition(self, p: int) -> PartitionKeys:
        base = f"{self.prefix}:{{{p}}}"
        return PartitionKeys(
            p,
            f"{base}:leases",
            f"{base}:schedule",
            f"{base}:queued",
            f"{base}:held",
            f"{base}:done",
            f"{base}:dead",
            f"{base}:refused",
            f"{base}:outbox",
            f"{base}:counters",
            f"{base}:marker",
            f"{base}:locks",
        )

    def lock(self, name: str) -> LockKeys:
        """Return the keys of the user's lock ``name``."""
        p = self.partition_of(name)
        base = f"{self.prefix}:{{{p}}}"
        part = self._partition_keys[p]
        return LockKeys(
            p,
            f"{base}:lock:name:{name}",
            f"{base}:lock:wake:{name}",
            part.locks,
            f"{base}:lock:fences",
            f"{base}:lock:freed",
            part.counters,
        )

    def stream(self, stream: str, shard: int) -> StreamKeys:
        """Return the keys of median stream ``stream``, which lives on ``shard``."""
        base = f"{self.prefix}:{{m{shard}}}:median:{stream}"
        return StreamKeys(shard, f"{base}:lower", f"{base}:upper", f"{base}:state")

    def shard_streams(self, shard: int) -> str:
        """Return the key of the Set of stream names that have state on ``shard``."""
        return f"{self.prefix}:{{m{shard}}}:streams"

    def shard_counters(self, shard: int) -> str:
        """Return the key of the Hash of event counters of ``shard``."""
        return f"{self.prefix}:{{m{shard}}}:counters"

    def added_parts(self, count: str) -> str:
        """Return the key, beside Celery's ``count`` of parts added to a chord, of the Set of their ids.

        It lives in the result backend, which may be another Redis than that of the jobs.
        """
        return f"{count}:{self.prefix}"

    def worker(self, node: str) -> str:
        """Return the key of the Hash that describes one live worker (``Node.owner``)."""
        return f"{self.prefix}:{{w}}:worker:{node}"

    def fate(self, node: str) -> str:
        """Return the key of what was found to have ended a worker (``Node.owner``): a job id, or empty."""
        return f"{self.prefix}:{{w}}:fate:{node}"

    def suspects(self) -> str:
        """Return the key of the ZSET of jobs that wait for their turn to run again alone (us: since)."""
        return f"{self.prefix}:{{w}}:suspects"

    def turn(self) -> str:
        """Return the key of the id of the suspect whose turn it is; it lapses with the turn."""
        return f"{self.prefix}:{{w}}:turn"

    def workers(self) -> str:
        """Return the key of the ZSET of workers (``Node.owner``) by last beat (us)."""
        return f"{self.prefix}:{{w}}:workers"

    def saving(self) -> str:
        """Return the key of the Hash of what is known of the job store: writes, failures, the last error."""
        return f"{self.prefix}:{{w}}:saving"

    def audit(self) -> str:
        """Return the key of the Hash (id -> JSON) of what was done by hand, until the job store has it."""
        return f"{self.prefix}:{{w}}:audit"

    def compared(self) -> str:
        """Return the key of the run id of the server that has what the job store says it should have."""
        return f"{self.prefix}:{{w}}:compared"

    def comparing(self) -> str:
        """Return the key of the String (PX) that is there while a worker compares Redis with the store."""
        return f"{self.prefix}:{{w}}:comparing"

    def outbox_watch(self) -> str:
        """Return the key of the String (PX): the worker (``Node.owner``) that writes to the job store."""
        return f"{self.prefix}:{{w}}:outbox"

    def relay_watch(self, place: str) -> str:
        """Return the key of the String (PX): the worker that relays the outbox in the database ``place``."""
        return f"{self.prefix}:{{w}}:relay:{place}"

    def relay_poke(self, place: str) -> str:
        """Return the key of the List that gets an entry when something was put into that outbox."""
        return f"{self.prefix}:{{w}}:relay:{place}:poke"

    def relayed(self, place: str) -> str:
        """Return the key of the ZSET of jobs that are sent, and may be in that outbox still (us: since)."""
        return f"{self.prefix}:{{w}}:relay:{place}:done"

    def relaying(self, place: str) -> str:
        """Return the key of the Hash of what is known of that outbox: backlog, failures, the last error."""
        return f"{self.prefix}:{{w}}:relay:{place}:told"

    def schedule_watch(self) -> str:
        """Return the key of the String (PX): the worker (``Node.owner``) that watches the schedules."""
        return f"{self.prefix}:{{w}}:schedule"

    def record_pattern(self) -> str:
        """Return a glob for SCAN that all record keys match, and some other keys of jobs."""
        return "".join(f"\\{c}" if c in "*?[]^\\" else c for c in self.prefix) + ":{*}:job:*"

    def id_of_record(self, key: str) -> str | None:
        """Return the id of the job whose record has the name ``key``; None if it is no record's name."""
        found = key.partition("}:job:")[2]
        job_id = found.removeprefix(":")
        return job_id if job_id and self.job(job_id).record == key else None
