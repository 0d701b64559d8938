"""Sending the jobs of an outbox, so that one that is sent again changes nothing.

The id and the one-time token of the enqueue were drawn when the row was written. A job that has a record was
sent; one whose record is gone because it ended long ago is known by a mark, which stays until its row is
deleted.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from time import CLOCK_BOOTTIME, clock_gettime
from typing import TYPE_CHECKING, Any

from kombu.exceptions import OperationalError
from redis.exceptions import NoPermissionError, OutOfMemoryError, ReadOnlyError, RedisError, ResponseError

from denyut.states import State
from denyut.tasks.door import _Answered, _DoorProducer
from denyut.tasks.envelope import Stamp
from denyut.tasks.outbox.row import from_row
from denyut.tasks.wire import Catcher

if TYPE_CHECKING:
    from collections.abc import Sequence

    from denyut.app import Denyut
    from denyut.database.outbox_take import Row

__all__ = ["Delivery", "clock", "deliver", "forget", "remember"]

logger = logging.getLogger(__name__)

#: What a server says of itself, and what may be the connection's.
_OF_THE_SERVER = (OutOfMemoryError, ReadOnlyError, NoPermissionError, OperationalError, OSError)

#: How long rows may be in hand (s): then somebody else may have them, because this process was paused.
IN_HAND = 5.0

#: How long a mark is kept if the row is never deleted (us).
_MARKED = 30 * 24 * 3600 * 1_000_000


@dataclass(slots=True)
class Delivery:
    """What came of some rows. ``trouble`` is what kept the rest from being sent."""

    sent: list[Row] = field(default_factory=list)
    refused: list[tuple[Row, str]] = field(default_factory=list)
    trouble: Exception | None = None


def clock() -> float:
    """Return seconds on a clock that goes on while the machine sleeps."""
    return clock_gettime(CLOCK_BOOTTIME)


def deliver(pulse: Denyut, place: str, rows: Sequence[Row], since: float) -> Delivery:
    """Send the jobs of ``rows``, in their order. Raises nothing that a server may cause: see ``trouble``.

    Args:
        pulse: the app's Denyut.
        place: the name of the database that they are from.
        rows: some hundreds at most.
        since: when they were taken, by :func:`clock`.
    """
    found = Delivery()
    catcher = Catcher(pulse)
    try:
        known = _known(pulse, place, rows)
        with pulse.app.producer_or_acquire() as producer:
            for row in rows:
                if row.id not in known:
                    _check_hold(since)
                    why = _send(pulse, producer, catcher, row)
                    if why:
                        found.refused.append((row, why))
                        continue
                found.sent.append(row)
    except Exception as exc:  # noqa: BLE001 - the rows that are sent must be deleted before it is raised
        found.trouble = exc
    return found


def remember(pulse: Denyut, place: str, rows: Sequence[Row]) -> None:
    """Mark rows as sent, until they are deleted."""
    if not rows:
        return
    now, key = pulse.store.now_us(), pulse.keys.relayed(place)
    pipe = pulse.store.client.pipeline(transaction=False)
    pipe.zadd(key, {row.id: now for row in rows})
    pipe.zremrangebyscore(key, "-inf", now - _MARKED)
    pipe.execute()


def forget(pulse: Denyut, place: str, rows: Sequence[Row]) -> None:
    """Take the marks away again: the rows are deleted."""
    if rows:
        pulse.store.client.zrem(pulse.keys.relayed(place), *(row.id for row in rows))


def _check_hold(since: float) -> None:
    """Give up rows that are in hand for long.

    A process that was paused for longer than a job is remembered would send one again that has run long ago.
    """
    held = clock() - since
    if held > IN_HAND:
        raise TimeoutError(f"its rows are in hand for {held:.1f} s, and may be another's by now")


def _known(pulse: Denyut, place: str, rows: Sequence[Row]) -> set[str]:
    """Return the ids of those that need not be sent any more."""
    pipe = pulse.store.client.pipeline(transaction=False)
    pipe.zmscore(pulse.keys.relayed(place), [row.id for row in rows])
    for row in rows:
        pipe.hget(pulse.keys.job(row.id).record, "state")
    marks, *states = pipe.execute()
    waits = (None, State.QUEUED.encode())  # queued: by a relay that may have died before it published
    return {
        row.id
        for row, mark, state in zip(rows, marks, states, strict=True)
        if mark is not None or state not in waits
    }


def _send(pulse: Denyut, producer: Any, catcher: Catcher, row: Row) -> str:
    """Send one job as its producer would have; returns why it cannot be sent, else nothing."""
    try:
        intent, envelope = from_row(row)
        options = {**envelope.publish_options(pulse.app, Stamp()), "retry": False}
        _DoorProducer(pulse, producer, intent, catcher).publish(envelope.body, **options)
    except _Answered:
        return ""  # it exists
    except _OF_THE_SERVER:
        raise
    except Exception as exc:  # noqa: BLE001 - whatever is wrong with this one, the others are sent
        if isinstance(exc, RedisError) and not isinstance(exc, ResponseError):
            pulse.store.client.ping()  # raises if the server is away; else it is this job that it cannot take
        why = f"{type(exc).__name__}: {exc}".replace("\0", "")[:500]
        logger.warning("outbox: job %s cannot be sent: %s", row.id, why)
        return why
    return ""
