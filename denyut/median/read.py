"""Reading a stream: any quantile, in one round trip, never a wrong number that looks right."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import floor, isfinite
from typing import TYPE_CHECKING, Any

from denyut.errors import ConfigurationError, StreamDegraded
from denyut.median.event import check_stream
from denyut.median.routing import shard_of
from denyut.scripts import Script

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["Reading", "check_quantile", "interpolate", "read_stream"]

READ = Script("denyut.median", "read")

_MEDIAN = 0.5
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a stream says at one moment.

    ``value`` is the quantile, None for an empty stream; ``lower`` and ``upper`` are the recorded
    values next to it (equal where the quantile is a recorded value). ``version`` grows with every
    batch. ``duplicates`` counts events that came again, ``conflicts`` those that came again with
    another value: the first stands. ``updated_at`` is by Redis' clock.
    """

    stream: str
    count: int
    value: float | None
    lower: float | None
    upper: float | None
    quantile: float
    version: int
    updated_at: datetime | None
    duplicates: int
    conflicts: int
    health: str = "ok"


def check_quantile(quantile: Any) -> float:
    """Return ``quantile`` as a float. Raises ConfigurationError unless it is a number from 0 to 1."""
    if isinstance(quantile, bool) or not isinstance(quantile, int | float) or not 0 <= quantile <= 1:
        raise ConfigurationError(f"quantile={quantile!r}: must be a number from 0 (min) to 1 (max)")
    return float(quantile)


def read_stream(pulse: Denyut, stream: str, quantile: float = _MEDIAN) -> Reading:
    """Read a quantile of ``stream``; a stream without events reads as empty.

    The quantile q of n values is at rank q * (n - 1) of the sorted values, counted from 0, and
    linear between two of them (definition 7 of Hyndman and Fan, "Sample Quantiles in Statistical
    Packages", 1996; numpy's default). q=0 is the minimum and q=1 the maximum; q=0.5 is bit-equal to
    ``statistics.median``, except that a mean of two values that would overflow stays finite.

    Raises:
        InvalidStream, ConfigurationError: for a bad name or quantile.
        StreamDegraded: if the state in Redis contradicts itself.
    """
    q, shard = check_quantile(quantile), shard_of(check_stream(stream), pulse.settings.median_shards)
    keys = pulse.keys.stream(stream, shard)
    names = [keys.lower, keys.upper, keys.state, pulse.keys.shard_streams(shard)]
    code, *reply = (_text(item) for item in READ(pulse.store.client, names, [repr(q), stream]))
    if code != "OK":
        raise degraded(stream, code, reply[0])
    below, above, median, count, version, updated_at, duplicates, conflicts = reply
    lower, upper = _number(below), _number(above)
    value = _number(median) if q == _MEDIAN else _between(lower, upper, q * (int(count) - 1))
    return Reading(
        stream=stream,
        count=int(count),
        value=value,
        lower=lower,
        upper=upper,
        quantile=q,
        version=int(version),
        updated_at=_EPOCH + timedelta(microseconds=int(updated_at)) if updated_at else None,
        duplicates=int(duplicates),
        conflicts=int(conflicts),
    )


def interpolate(a: float, b: float, share: float) -> float:
    """Return the value ``share`` of the way from ``a`` to ``b``, never outside of them.

    Rounded as numpy does it: from the nearer end. Where the distance would overflow, both ends are
    weighted instead.
    """
    if share == 0 or a == b:
        return a
    distance = b - a
    if not isfinite(distance):
        return a * (1 - share) + b * share
    return a + distance * share if share < 0.5 else b - distance * (1 - share)  # noqa: PLR2004 - the middle


def degraded(stream: str, code: str, detail: str) -> StreamDegraded:
    """Return the error for a script's answer FORMAT or CORRUPT."""
    if code == "FORMAT":
        return StreamDegraded(
            f"stream {stream!r} was written in format {detail}, which this version of Denyut does not know; "
            "upgrade this process"
        )
    return StreamDegraded(
        f"stream {stream!r} contradicts itself: {detail}. Something else changed its keys, or Redis evicted "
        "one (maxmemory-policy must be noeviction)"
    )


def _between(lower: float | None, upper: float | None, place: float) -> float | None:
    if lower is None or upper is None:
        return None
    return interpolate(lower, upper, place - floor(place))


def _number(text: str) -> float | None:
    return float(text) if text else None


def _text(item: Any) -> str:
    return item.decode() if isinstance(item, bytes) else str(item)
