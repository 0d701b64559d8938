"""``pulse.median``: recording events and reading exact medians."""

from __future__ import annotations

from difflib import get_close_matches
from itertools import islice
from typing import TYPE_CHECKING, Any

from denyut.errors import ConfigurationError, EventError, InvalidEvent
from denyut.median.columns import Columns, check_events
from denyut.median.event import Event, check_stream
from denyut.median.packing import encode
from denyut.median.read import Reading, read_stream
from denyut.median.routing import APPLY_TASK, median_queue, shard_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from denyut.app import Denyut
    from denyut.median.recorder import Recorder

__all__ = ["Median"]

_ON_INVALID = ("refuse", "send_valid")
_STREAMS_A_TRIP = 1000


class Median:
    """Exact running medians. An event counts once, however often it is recorded.

    Events travel to the worker of their stream's shard (``celery -A proj denyut worker-median``); a
    reading sees them when they have been applied there.

    Args:
        pulse: the app's Denyut.
    """

    def __init__(self, pulse: Denyut) -> None:
        self._pulse = pulse

    def record(self, stream: str, value: Any, *, event_id: str, at: datetime | float | None = None) -> None:
        """Send one event. For many, :meth:`record_many` or :meth:`recorder` are 100 times as fast.

        Args:
            stream: 1 to 200 characters.
            value: any real number that a double holds exactly.
            event_id: the caller's stable name for this event, 1 to 255 characters.
            at: when it happened: an aware datetime, or seconds since 1970.

        Raises:
            InvalidStream, InvalidEvent: with the reason; nothing was sent.
        """
        self.record_many(stream, [Event(value, event_id, at)])

    def record_many(self, stream: str, events: Iterable[Any], *, on_invalid: str = "refuse") -> int:
        """Send many events, ``denyut_median_batch`` in one message, and return how many were sent.

        If the broker fails midway, record all of them again: what arrived twice counts once.

        Args:
            stream: 1 to 200 characters.
            events: any iterable of :class:`Event`, ``(value, event_id)``, ``(value, event_id, at)`` or
                dicts of these. All are checked before the first is sent.
            on_invalid: ``"refuse"`` sends nothing if any event is bad; ``"send_valid"`` sends the others,
                and raises all the same.

        Raises:
            InvalidStream: nothing was sent.
            InvalidEvent: names every bad event by its index; ``sent`` is how many were sent.
            ConfigurationError: for another ``on_invalid``.
        """
        _check_choice(on_invalid)
        check_stream(stream)
        if isinstance(events, Event | dict | str):
            raise InvalidEvent([EventError(0, "record_many takes many events; use record for one")])
        messages: list[tuple[int, str]] = []
        errors: list[EventError] = []
        offset = 0
        for chunk in _chunks(events, self._pulse.settings.median_batch):
            good, bad = check_events(chunk)
            errors += [EventError(offset + index, reason) for index, reason in bad]
            offset += len(chunk)
            if good and not (errors and on_invalid == "refuse"):
                messages.append((len(good), encode(good)))
        if errors and on_invalid == "refuse":
            raise InvalidEvent(errors)
        sent = self._publish(stream, messages)
        if errors:
            raise InvalidEvent(errors, sent=sent)
        return sent

    def read(self, stream: str, quantile: float = 0.5) -> Reading:
        """Read a quantile of ``stream``, the median by default; see :func:`read_stream`.

        Raises:
            InvalidStream, ConfigurationError: for a bad name or quantile.
            StreamDegraded: if the state in Redis contradicts itself.
        """
        return read_stream(self._pulse, stream, quantile)

    def streams(self) -> dict[str, int]:
        """Return the names of all streams, sorted, each with its number of events."""
        client, keys = self._pulse.store.client, self._pulse.keys
        shards = range(self._pulse.settings.median_shards)
        pipe = client.pipeline(transaction=False)
        for shard in shards:
            pipe.smembers(keys.shard_streams(shard))
        found = [
            (_text(name), shard)
            for shard, names in zip(shards, pipe.execute(), strict=True)
            for name in names
        ]
        counts: dict[str, int] = {}
        for part in _chunks(sorted(found), _STREAMS_A_TRIP):
            pipe = client.pipeline(transaction=False)
            for name, shard in part:
                pipe.hget(keys.stream(name, shard).state, "count")
            counts |= {name: int(count or 0) for (name, _), count in zip(part, pipe.execute(), strict=True)}
        return counts

    def recorder(self, *, flush_ms: float = 200.0) -> Recorder:
        """Return a :class:`Recorder`, which buffers events and sends them in batches.

        Args:
            flush_ms: most milliseconds that an event waits for others.
        """
        from denyut.median.recorder import Recorder

        return Recorder(self, batch=self._pulse.settings.median_batch, flush_ms=flush_ms)

    def send(self, stream: str, columns: Columns) -> None:
        """Send checked events, at most ``denyut_median_batch``, in one message."""
        self._publish(stream, [(len(columns), encode(columns))])

    def _publish(self, stream: str, messages: list[tuple[int, str]]) -> int:
        if not messages:
            return 0
        pulse = self._pulse
        task = pulse.app.tasks[APPLY_TASK]
        queue = median_queue(pulse, shard_of(stream, pulse.settings.median_shards))
        with pulse.app.producer_or_acquire() as producer:
            for count, batch in messages:
                shown = f"({stream!r}, <{count} events>)"
                task.apply_async(
                    (stream, batch), queue=queue, producer=producer, argsrepr=shown, kwargsrepr="{}"
                )
        return sum(count for count, _ in messages)


def _check_choice(on_invalid: str) -> None:
    if on_invalid not in _ON_INVALID:
        close = get_close_matches(str(on_invalid), _ON_INVALID, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(map(repr, _ON_INVALID))}"
        raise ConfigurationError(f"on_invalid={on_invalid!r}; {hint}")


def _chunks(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    iterator = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk


def _text(item: Any) -> str:
    return item.decode() if isinstance(item, bytes) else str(item)
