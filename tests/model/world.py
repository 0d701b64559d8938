"""The world in which the protocol runs: one Redis with a clock that the model moves, one broker, processes.

Everybody talks to Redis through :class:`Client`, which hands each script call with its reply to the
oracle and lets faults happen. The broker is a list of messages in this process: any of them may be
delivered at any time, twice, or never.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import count
from string import ascii_lowercase
from types import SimpleNamespace
from typing import Any

from model.faults import Faults
from model.oracle import Oracle
from model.scripts import Library
from model.seen import Seen

from denyut.config import Settings
from denyut.keys import Keys
from denyut.tasks import cancellation as cancellation_module
from denyut.tasks import claim as claim_module
from denyut.tasks import due as due_module
from denyut.tasks import lost as lost_module
from denyut.tasks import node as node_module
from denyut.tasks import recover as recover_module
from denyut.tasks.envelope import Envelope, Stamp
from denyut.tasks.node import Node

START = 1_700_000_000_000_000  # us
PARTITIONS = 2
#: The broker's List, where it lives in the same Redis.
LIST = "broker"
SETTINGS = Settings.build(
    {
        "prefix": "m",
        "partitions": PARTITIONS,
        "lease_ttl": 6.0,
        "max_crashes": 1,
        "retention": 100.0,
        "queued_timeout": 20.0,
        "dead_retention": 300.0,
    }
)


@dataclass(eq=False)
class Message:
    """A message at the broker, or in somebody's hand. Each copy is one."""

    envelope: Envelope
    stamp: Stamp

    @property
    def id(self) -> str:
        return str(self.envelope.headers["id"])

    def copy(self) -> Message:
        return Message(self.envelope, self.stamp)


@dataclass
class Broker:
    """Messages that wait, and those that somebody took and has not acknowledged."""

    ready: list[Message] = field(default_factory=list)
    unacked: list[Message] = field(default_factory=list)

    def take(self, message: Message) -> Message:
        self.ready.remove(message)
        self.unacked.append(message)
        return message

    def ack(self, message: Message) -> None:
        if message in self.unacked:
            self.unacked.remove(message)

    def give_back(self, message: Message) -> None:
        if message in self.unacked:
            self.unacked.remove(message)
            self.ready.append(message)


class Client:
    """What production code takes for its Redis client."""

    def __init__(self, world: World) -> None:
        self._world = world

    def evalsha(self, sha: str, number: int, *rest: Any) -> Any:
        return self._world.call(sha, rest[:number], rest[number:])

    def eval(self, text: str, number: int, *rest: Any) -> Any:
        raise AssertionError("the model loads every script before it is called")

    def pipeline(self, *, transaction: bool) -> _Pipeline:
        return _Pipeline(self)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def command(*args: Any, **options: Any) -> Any:
            reply = getattr(self._world.redis, name)(*args, **options)
            self._world.faults.after_command()
            return reply

        return command


class _Pipeline:
    """Calls sent in one round trip: each script is atomic by itself, others may run in between."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._calls: list[tuple[str, Any]] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *args: self._calls.append((name, args))

    def execute(self, *, raise_on_error: bool = True) -> list[Any]:
        return [getattr(self._client, name)(*args) for name, args in self._calls]


class World:
    """One example's Redis, broker, clock and oracle.

    Args:
        redis: a client of an empty server of the model's own.
        library: the scripts.
    """

    def __init__(self, redis: Any, library: Library) -> None:
        self.redis = redis
        self.library = library
        self.keys = Keys(SETTINGS.prefix, PARTITIONS)
        self.settings = SETTINGS
        self.broker = Broker()
        self.faults = Faults()
        self.token = ""
        self._numbers = count(1)
        self.dead: set[tuple[str, int]] = set()  # (owner, pid) of processes that have ended
        #: What whoever asks is told: is this job to blame for the end of its worker?
        self.blames = True
        #: What is to be told to Celery, and then settled: job, fence, digest.
        self.untold: list[tuple[str, int, str | None]] = []
        app = SimpleNamespace(
            conf=SimpleNamespace(accept_content=["json"]),
            control=SimpleNamespace(broadcast=lambda *_, **__: None),
            producer_or_acquire=lambda: nullcontext(SimpleNamespace(channel=None)),
        )
        self.client = Client(self)
        store = SimpleNamespace(client=self.client)
        self.pulse: Any = SimpleNamespace(settings=SETTINGS, keys=self.keys, store=store, app=app)
        self.oracle = Oracle(self.keys, SETTINGS, self.is_dead)
        self._audit, self._tick = library.install(redis)
        empty = lambda pipe: pipe.flushall()  # noqa: E731 - a step
        self.oracle.seen = self._at_once(empty, lambda pipe: pipe.set("model:clock", START))[1]
        self.oracle.now = START

    # -- talking to Redis

    def call(self, sha: str, keys: Sequence[Any], args: Sequence[Any]) -> Any:
        """Run a script as somebody of the protocol, and let the oracle judge it."""
        name = self.library.names[sha]
        self.oracle.notice(name, keys, args)
        reply, seen = self._send(sha, keys, args)
        self.oracle.judge(name, keys, args, reply, seen)
        if self.faults.twice:
            again, seen = self._send(sha, keys, args)
            self.oracle.judge(name, keys, args, again, seen, first=reply)
            reply = again
        self.faults.after_command()
        return reply

    def _send(self, sha: str, keys: Sequence[Any], args: Sequence[Any]) -> tuple[Any, Seen]:
        reply, seen = self._at_once(lambda pipe: pipe.evalsha(sha, len(keys), *keys, *args))
        return reply, seen

    def _at_once(self, *steps: Callable[[Any], Any]) -> tuple[Any, Seen]:
        """Take steps and look, in one round trip; returns the first reply, and what was seen."""
        pipe = self.redis.pipeline(transaction=False)
        for step in steps:
            step(pipe)
        jobs, digests, names = self._names()
        pipe.evalsha(self._audit, len(names), *names, len(jobs), PARTITIONS, LIST)
        replies = pipe.execute()
        raw = json.loads(replies[-1])
        for text in raw["pushed"] or []:
            message = json.loads(text)
            self.broker.ready.append(Message(Envelope.of_wire(message), Stamp.of(message["headers"])))
        return replies[0], Seen.parse(raw, jobs, digests)

    def look(self) -> Seen:
        """Read everything there is."""
        return self._at_once()[1]

    def _names(self) -> tuple[list[str], list[str], list[str]]:
        jobs, digests = list(self.oracle.jobs), list(self.oracle.digests)
        names: list[str] = []
        for job_id in jobs:
            job = self.keys.job(job_id)
            names += (job.record, job.lease, job.telemetry)
        for part in self.keys.all_partitions():
            names += (
                part.leases,
                part.schedule,
                part.queued,
                part.held,
                part.done,
                part.dead,
                part.counters,
                part.marker,
            )
        names += [self.keys.idempotency(digest) for digest in digests]
        return jobs, digests, names

    @property
    def now(self) -> int:
        return self.oracle.now

    def advance(self, us: int) -> None:
        """Let time pass: what is over by then is gone."""
        tick = lambda pipe: pipe.evalsha(self._tick, 0)  # noqa: E731 - a step
        self.oracle.pass_time(self._at_once(lambda pipe: pipe.incrby("model:clock", us), tick)[1])

    def new_id(self, partition: int) -> str:
        """Return a new job id that falls into ``partition``."""
        number = next(self._numbers)
        names = (f"j{number}{letter}" for letter in ["", *ascii_lowercase])
        return next(name for name in names if self.keys.partition_of(name) == partition)

    def new_token(self) -> str:
        return f"t{next(self._numbers)}"

    # -- who acts, and what happens to it

    @contextmanager
    def acting(self, node: Node, faults: Faults | None = None, token: str = "") -> Iterator[None]:
        """Let what is called inside be done by a process of ``node``."""
        before = node_module._current, self.faults, self.token
        node_module._current, self.faults, self.token = node, faults or Faults(), token
        try:
            yield
        finally:
            node_module._current, self.faults, self.token = before

    def is_dead(self, owner: str, pid: str) -> bool:
        return (owner, int(pid or 0)) in self.dead

    def publish(self, envelope: Envelope, stamp: Stamp) -> None:
        """Give a message to the broker."""
        self.broker.ready.append(Message(envelope, stamp))
        self.faults.after_command()

    # -- losing data

    def snapshot(self) -> Any:
        """Return what Redis would write to disk now."""
        names = [name for name in self.redis.keys("*") if name != b"model:clock"]
        pipe = self.redis.pipeline()
        for name in names:
            pipe.dump(name)
        return dict(zip(names, pipe.execute(), strict=True)), self.oracle.snapshot()

    def lose(self, snapshot: Any | None) -> None:
        """Lose all data, or what was written since ``snapshot``."""
        clock = self.now
        self.redis.flushall()
        pipe = self.redis.pipeline()
        pipe.set("model:clock", clock)
        for name, value in (snapshot[0] if snapshot else {}).items():
            pipe.restore(name, 0, value)
        pipe.execute()
        self.redis.evalsha(self._tick, 0)
        self.oracle.data_lost(snapshot[1] if snapshot else None)
        self.oracle.seen = self.look()
        self.oracle.pass_time(self.look())

    def lose_partition(self, number: int) -> None:
        """Lose the data of one partition: one node of a cluster came back empty."""
        names = self.redis.keys(f"{SETTINGS.prefix}:{{{number}}}:*")
        if names:
            self.redis.delete(*names)
            self.redis.zrem("model:ends", *names)
        self.oracle.partition_lost(number)
        self.oracle.seen = self.look()
        self.oracle.pass_time(self.look())


@contextmanager
def inhabited(world: World) -> Iterator[World]:
    """Put the world under the production code: its broker, its process identities, its queue depths."""
    saved = (
        claim_module.uuid4,
        recover_module.bury,
        recover_module.tell_expired,
        due_module.tell_expired,
        Envelope.publish,
        lost_module.queue_depth,
        node_module._current,
        recover_module.settle_cancelled,
        cancellation_module.settle_cancelled,
        due_module.publish_all,
        claim_module.is_to_blame,
        recover_module.is_to_blame,
    )

    def publish(self: Envelope, app: Any, stamp: Stamp, *, producer: Any = None) -> None:
        world.publish(self, stamp)

    def bury(pulse: Any, job_id: str, message: Any, fence: int, crashes: int, digest: str | None) -> None:
        world.untold.append((job_id, fence, digest))

    def expired(
        pulse: Any, job_id: str, message: Any, fence: int, digest: str | None, *_: Any, **__: Any
    ) -> None:
        world.untold.append((job_id, fence, digest))

    def cancelled(pulse: Any, job_id: str, fence: int, message: Any, digest: str | None, error: Any) -> None:
        world.untold.append((job_id, fence, digest))

    def publish_all(pulse: Any, producer: Any, messages: Any) -> list[str]:
        for _, envelope, stamp in messages:
            world.publish(envelope, stamp)
        return [job_id for job_id, *_ in messages]

    def is_to_blame(pulse: Any, owner: str, job_id: str) -> bool:
        return world.blames

    recover_module.settle_cancelled = cancellation_module.settle_cancelled = cancelled
    due_module.publish_all = publish_all
    claim_module.is_to_blame = recover_module.is_to_blame = is_to_blame
    claim_module.uuid4 = lambda: SimpleNamespace(hex=world.token)  # type: ignore[assignment,return-value]
    recover_module.bury = bury
    recover_module.tell_expired = due_module.tell_expired = expired
    Envelope.publish = publish  # type: ignore[method-assign]
    lost_module.queue_depth = lambda app, queue: len(world.broker.ready)
    try:
        yield world
    finally:
        claim_module.uuid4, recover_module.bury, recover_module.tell_expired = saved[:3]
        due_module.tell_expired, Envelope.publish, lost_module.queue_depth = saved[3:6]
        node_module._current, recover_module.settle_cancelled = saved[6:8]
        cancellation_module.settle_cancelled, due_module.publish_all = saved[8:10]
        claim_module.is_to_blame, recover_module.is_to_blame = saved[10:]
