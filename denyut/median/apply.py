"""Applying one batch to its stream: one script, one round trip, all or nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from denyut.errors import StaleWriter
from denyut.median.read import degraded
from denyut.median.routing import shard_of
from denyut.scripts import Script

if TYPE_CHECKING:
    from denyut.app import Denyut
    from denyut.median.packing import Batch

__all__ = ["Applied", "apply_batch"]

APPLY = Script("denyut.median", "apply")


@dataclass(frozen=True, slots=True)
class Applied:
    """What a batch did to its stream. ``version`` and ``count`` are those after it."""

    version: int
    count: int
    accepted: int
    duplicates: int
    conflicts: int
    median: float | None


def apply_batch(
    pulse: Denyut, stream: str, batch: Batch, *, fence: int | None = None, token: str = ""
) -> Applied:
    """Apply ``batch`` to ``stream``. Events that the stream knows already change nothing.

    Args:
        pulse: the app's Denyut.
        stream: a checked name.
        batch: decoded, so its values are finite.
        fence: of the shard's owner; a lower one than the stream has seen is refused, and so is none
            once it has seen one.
        token: names the batch, so that it is not counted as duplicates when it is sent again at once
            (a lost reply, a killed worker).

    Raises:
        StaleWriter: for a fence that is too low; nothing was changed.
        StreamDegraded: if the heaps and the state contradict each other; nothing was changed.
    """
    shard = shard_of(stream, pulse.settings.median_shards)
    keys = pulse.keys.stream(stream, shard)
    names = [
        keys.lower,
        keys.upper,
        keys.state,
        pulse.keys.shard_streams(shard),
        pulse.keys.shard_counters(shard),
    ]
    args: list[Any] = [
        "" if fence is None else fence,
        stream,
        token,
        batch.last_event_id,
        batch.values,
        batch.ids,
    ]
    code, *reply = (_text(item) for item in APPLY(pulse.store.client, names, args))
    if code == "FENCED":
        raise StaleWriter(
            f"stream {stream!r} has fence {reply[0]}, this writer's is {fence or 'none'}: it must stop"
        )
    if code != "APPLIED":
        raise degraded(stream, code, reply[0])
    version, count, accepted, duplicates, conflicts = map(int, reply[:5])
    median = float(reply[5]) if reply[5] else None
    return Applied(version, count, accepted, duplicates, conflicts, median)


def _text(item: Any) -> str:
    return item.decode() if isinstance(item, bytes) else str(item)
