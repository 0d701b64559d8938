"""A message as kombu's Redis transport would push it, caught on its way instead of sent.

Where the broker is the Redis that has the records, the script that makes a record pushes the message
too: one round trip, and no producer can die between the two. This rests on kombu internals
(``transport.redis.Channel._put``) and is kept in this one file.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from kombu.transport.redis import Channel, Transport
from kombu.utils.json import dumps

from denyut.tasks.envelope import Envelope

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from denyut.app import Denyut

__all__ = ["Catcher", "Wire", "address"]


@dataclass(frozen=True, slots=True)
class Wire:
    """One message: the Lists that it is to be pushed to, its text there, and the same as data."""

    lists: list[str]
    payload: str
    envelope: Envelope


class Catcher:
    """Catches what producers would push to the server, and database, that has the records.

    Args:
        pulse: the app's Denyut.
    """

    def __init__(self, pulse: Denyut) -> None:
        self._pulse = pulse
        self._known: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()

    def can_catch(self, producer: Any) -> bool:
        """Whether what ``producer`` publishes goes to the records' own server and database."""
        connection = producer.__connection__  # asking for a channel would connect, to whatever broker it is
        if connection is not None and not issubclass(connection.get_transport_cls(), Transport):
            return False
        channel = producer.channel
        known = self._known.get(channel)
        if known is None:
            known = type(channel) is Channel and self._is_here(channel.pool.connection_kwargs)
            self._known[channel] = known
        return known

    def _is_here(self, options: Mapping[str, Any]) -> bool:
        return address(options) == address(self._pulse.store.client.connection_pool.connection_kwargs)

    def catch(self, producer: Any, body: Any, options: dict[str, Any]) -> Wire | None:
        """Return what ``producer.publish(body, **options)`` would push; None if it must go its own way."""
        seen = self.seen(producer, body, options)
        return None if seen is None else Wire(seen[0], dumps(seen[1]), Envelope.of_wire(seen[1]))

    def seen(self, producer: Any, body: Any, options: dict[str, Any]) -> tuple[list[str], Any] | None:
        """The same as the Lists and the message that kombu would encode for them."""
        channel = producer.channel
        with _caught(channel) as found:
            producer.publish(body, **options)
        expiring = getattr(channel, "_expires", ())  # such a queue is told so by every push
        if not found or any(queue is None or queue in expiring for queue, _ in found):
            return None
        message = found[0][1]
        priority = channel._get_message_priority(message, reverse=False)  # noqa: SLF001
        prefix = channel.global_keyprefix or ""
        lists = [prefix + channel._q_for_pri(queue, priority) for queue, _ in found]  # noqa: SLF001
        return lists, message


@contextmanager
def _caught(channel: Any) -> Iterator[list[tuple[str | None, Any]]]:
    found: list[tuple[str | None, Any]] = []

    def put(queue: str, message: Any, **_: Any) -> None:
        found.append((queue, message))

    def put_fanout(_exchange: str, message: Any, *_: Any, **__: Any) -> None:
        found.append((None, message))

    # On the instance: a channel belongs to one thread at a time.
    channel._put, channel._put_fanout = put, put_fanout  # noqa: SLF001
    try:
        yield found
    finally:
        del channel._put, channel._put_fanout  # noqa: SLF001


def address(options: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return which server, database and user a Redis connection with these ``options`` is for."""
    where = options.get("path") or (options.get("host") or "localhost", options.get("port") or 6379)
    return (where, int(options.get("db") or 0), options.get("username") or None)
