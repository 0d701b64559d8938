"""Events a second: the script that keeps a median, against the least that any such thing must do.

The least is to put the same events into one sorted set: ``ZADD NX`` with a thousand events a command,
packed beforehand, sent without waiting for replies in between. It knows no median, no duplicate count
and no state. Both go over the same kind of connection to the same server, into keys that grow alike.
"""

from __future__ import annotations

import random
import time
from itertools import count
from typing import TYPE_CHECKING, Any

from celery import Celery
from pairs import Comparison, compare

from denyut import Denyut
from denyut.median.apply import apply_batch
from denyut.median.columns import check_events
from denyut.median.packing import Batch, decode, encode

if TYPE_CHECKING:
    from redis import Redis

BATCH = 1000
BATCHES = 80  # a round: about half a second


def apply_throughput(url: str, client: Redis, seconds: float) -> Comparison:
    """Return events a second of the apply script, in batches of 1000, against raw ZADD NX."""
    pulse = Denyut(Celery("bench", broker=url, set_as_current=False))
    rng = random.Random(2013)
    rounds = count()

    def events() -> list[Batch]:
        number = next(rounds)
        return [
            decode(
                encode(check_events([(rng.gauss(0, 30), f"{number}/{batch}/{n}") for n in range(BATCH)])[0])
            )
            for batch in range(BATCHES)
        ]

    def ours() -> float:
        todo = events()
        begin = time.perf_counter()
        for batch in todo:
            apply_batch(pulse, "bench", batch)
        return BATCH * BATCHES / (time.perf_counter() - begin)

    connection = client.connection_pool.get_connection()
    try:
        return compare(ours, lambda: _raw(connection, events()), seconds=seconds)
    finally:
        client.connection_pool.release(connection)
        pulse.store.close()


def _raw(connection: Any, todo: list[Batch]) -> float:
    commands = [
        b"".join(connection.pack_command("ZADD", "bench:raw", "NX", *_pairs(batch))) for batch in todo
    ]
    begin = time.perf_counter()
    connection.send_packed_command(commands)
    for _ in commands:
        connection.read_response()
    return BATCH * BATCHES / (time.perf_counter() - begin)


def _pairs(batch: Batch) -> list[float | bytes]:
    ids = [batch.ids[at : at + 16] for at in range(0, len(batch.ids), 16)]
    return [each for pair in zip(batch.numbers(), ids, strict=True) for each in pair]
