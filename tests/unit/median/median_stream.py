"""One median stream, with everything that a test wants to know about it."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from kombu import Connection
from redis import Redis

from denyut.config import Settings
from denyut.keys import Keys
from denyut.median.apply import Applied, apply_batch
from denyut.median.columns import check_events
from denyut.median.packing import Batch, decode, encode
from denyut.median.read import Reading, read_stream
from denyut.median.routing import APPLY_TASK, median_queue, shard_of
from denyut.store import Store


def bits(value: float | None) -> bytes:
    """The eight bytes of a double: equal only if the numbers are equal to the last bit."""
    return b"" if value is None else struct.pack(">d", value)


def batch_of(events: Iterable[tuple[float, str]]) -> Batch:
    """Pack events as a producer would."""
    columns, errors = check_events(list(events))
    assert not errors
    return decode(encode(columns))


@dataclass
class Stream:
    """A stream of a name of its own."""

    pulse: Any
    client: Redis
    name: str

    @property
    def shard(self) -> int:
        return shard_of(self.name, self.pulse.settings.median_shards)

    @property
    def keys(self) -> Any:
        return self.pulse.keys.stream(self.name, self.shard)

    def apply(self, events: Iterable[tuple[float, str]], **options: Any) -> Applied:
        return apply_batch(self.pulse, self.name, batch_of(events), **options)

    def read(self, quantile: float = 0.5) -> Reading:
        return read_stream(self.pulse, self.name, quantile)

    def state(self) -> dict[str, str]:
        return {k.decode(): v.decode() for k, v in self.client.hgetall(self.keys.state).items()}

    def heaps(self) -> tuple[list[float], list[float]]:
        low = [score for _, score in self.client.zrange(self.keys.lower, 0, -1, withscores=True)]
        high = [score for _, score in self.client.zrange(self.keys.upper, 0, -1, withscores=True)]
        return low, high

    def values(self) -> list[float]:
        low, high = self.heaps()
        return low + high

    def check(self) -> None:
        """The invariants of two heaps, and that the state tells of exactly these."""
        low, high = self.heaps()
        state = self.state()
        assert len(low) - len(high) in (0, 1)
        assert not high or low[-1] <= high[0]
        assert int(state["count"]) == len(low) + len(high)
        assert not low or bits(float(state["lower_top"])) == bits(low[-1])
        assert not high or bits(float(state["upper_top"])) == bits(high[0])
        ids = self.client.zrange(self.keys.lower, 0, -1) + self.client.zrange(self.keys.upper, 0, -1)
        assert len({*ids}) == len(ids)
        assert int(state["checksum"]) == sum(int.from_bytes(i[:6], "big") for i in ids) % 2**52


def stream_on(url: str, prefix: str, name: str) -> Stream:
    """A stream on a server, without a Celery app."""
    pulse: Any = SimpleNamespace(
        settings=Settings(), keys=Keys(prefix), store=Store(lambda: url, timeout=10.0)
    )
    return Stream(pulse, pulse.store.client, name)


def write_shuffled(url: str, prefix: str, name: str, seed: int, values: list[float]) -> None:
    """Apply ``values`` in an order of its own, in small batches: what a process of its own does."""
    stream = stream_on(url, prefix, name)
    events = [(v, f"e{i}") for i, v in enumerate(values)]
    random.Random(seed).shuffle(events)
    for start in range(0, len(events), 37):
        apply_batch(stream.pulse, name, batch_of(events[start : start + 37]))


def take_messages(pulse: Any) -> list[Any]:
    """Take all messages off the median queues, as (queue, message), in the order of the queues."""
    found = []
    with Connection(pulse.app.conf.broker_url) as connection:
        channel = connection.channel()
        for shard in range(pulse.settings.median_shards):
            queue = median_queue(pulse, shard).name
            while (message := channel.basic_get(queue)) is not None:
                channel.basic_ack(message.delivery_tag)
                found.append((queue, message))
    return found


def drain(pulse: Any) -> int:
    """Apply all waiting messages with the task's own function, and return how many there were."""
    messages = take_messages(pulse)
    for _, message in messages:
        args, kwargs, _ = message.payload
        pulse.app.tasks[APPLY_TASK](*args, **kwargs)
    return len(messages)
