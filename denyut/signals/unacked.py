"""What a worker notes of each message at a Redis broker, with less ado than kombu has.

On Redis there are no acknowledgements, so kombu's transport keeps a book: a message that a worker has
taken is entered (``unacked``, ``unacked_index``), and crossed out when it is acknowledged. For each of
the two it makes a client, a pipeline and several small writes, which was more than half of the work of
a worker's main process. Here the very same commands go to the server in one piece, over a connection
that is kept. Whatever goes wrong with that connection is left to kombu, which sends the same again: to
enter or to cross out twice does no harm. This rests on kombu internals (``transport.redis.QoS``) and is
kept in this one file.

kombu delivers an entry again that is older than the broker's ``visibility_timeout``, though its job may still
be at work. So a worker says now and then of all that it has in hand that it still has it.
"""

from __future__ import annotations

from functools import cached_property
from time import time
from typing import Any

from celery.bootsteps import StartStopStep
from kombu.transport import virtual
from kombu.transport.redis import Channel, QoS
from kombu.utils.json import dumps
from redis.exceptions import RedisError

from denyut.quick import QuickRedis, packed

__all__ = ["QuickQoS", "install_unacked", "quicken"]

#: Messages in one command.
_AT_ONCE = 500
#: The part of the visibility timeout after which they are renewed, and the shortest time (s).
_RENEWED_AFTER, _SHORTEST = 0.25, 0.25
_MULTI, _EXEC = packed(("MULTI",)), packed(("EXEC",))


class QuickQoS(QoS):  # type: ignore[misc]
    """kombu's book of the messages in hand, written in one piece. Safe to use from any thread, as kombu's."""

    def append(self, message: Any, delivery_tag: str) -> None:
        """Enter ``message``, which was received."""
        info = message.delivery_info
        text = dumps([message._raw, info["exchange"], info["routing_key"]])  # noqa: SLF001 - as QoS.append
        index, book = self._names
        if self._written(("ZADD", index, time(), delivery_tag), ("HSET", book, delivery_tag, text)):
            virtual.QoS.append(self, message, delivery_tag)
        else:
            super().append(message, delivery_tag)

    def ack(self, delivery_tag: str) -> None:
        """Cross out the message ``delivery_tag``: it is done with."""
        index, book = self._names
        if self._written(("ZREM", index, delivery_tag), ("HDEL", book, delivery_tag)):
            virtual.QoS.ack(self, delivery_tag)
        else:
            super().ack(delivery_tag)

    def renew(self) -> None:
        """Say of all messages in hand that they are, so that nobody delivers them again."""
        tags, now = list(self._delivered), time()
        for first in range(0, len(tags), _AT_ONCE):
            some = [part for tag in tags[first : first + _AT_ONCE] for part in (now, tag)]
            # XX: one that was acknowledged meanwhile stays crossed out. If it fails, the next time will do.
            self._written(("ZADD", self._names[0], "XX", *some))

    @cached_property
    def _names(self) -> tuple[str, str]:
        prefix = self.channel.global_keyprefix or ""
        return prefix + self.unacked_index_key, prefix + self.unacked_key

    @cached_property
    def _client(self) -> QuickRedis:
        return QuickRedis(connection_pool=self.channel.pool)

    def _written(self, *commands: tuple[Any, ...]) -> bool:
        """Write in one transaction; False if it is not known whether that was done."""
        try:
            replies = self._client.quick([_MULTI, *map(packed, commands), _EXEC])
        except (RedisError, OSError):
            return False
        return not any(isinstance(reply, Exception) for reply in replies)


def quicken(channel: Any) -> None:
    """Let ``channel`` keep its book in the quick way, if it is one of kombu's Redis transport."""
    # Of a subclass (Sentinel, a cluster, somebody's own) nothing is known.
    if type(channel) is Channel and type(channel.qos) is QoS:
        # The object stays: its prefetch count and what it holds are in use already.
        channel.qos.__class__ = QuickQoS


def install_unacked(app: Any) -> None:
    """Let the workers of ``app`` keep that book in the quick way, also after they have connected anew."""

    class Unacked(StartStopStep):  # type: ignore[misc]
        """Comes after the step that begins to consume, and before the first message is read."""

        requires = ("celery.worker.consumer.tasks:Tasks",)
        renewal: Any = None

        def start(self, parent: Any) -> None:
            channel = parent.task_consumer.channel
            quicken(channel)
            self.stop(parent)
            if isinstance(channel.qos, QuickQoS):
                pause = max(channel.visibility_timeout * _RENEWED_AFTER, _SHORTEST)
                self.renewal = parent.timer.call_repeatedly(pause, channel.qos.renew)

        def stop(self, parent: Any) -> None:  # noqa: ARG002 - Celery's signature
            if self.renewal is not None:
                self.renewal.cancel()
                self.renewal = None

    app.steps["consumer"].add(Unacked)
