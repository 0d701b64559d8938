"""How many messages wait in the queues of the broker."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["queue_depth", "queue_depths"]

#: What bounds a wait in each kind of transport that has such a thing.
_TIMEOUTS = {"redis": ("socket_timeout", "socket_connect_timeout"), "amqp": ("read_timeout", "write_timeout")}


def queue_depth(app: Any, queue: str) -> int:
    """Return the number of ready messages in ``queue``; see :func:`queue_depths`."""
    return queue_depths(app, [queue])[queue]


def queue_depths(app: Any, queues: Iterable[str], *, timeout: float = 5.0) -> dict[str, int]:
    """Return the number of ready messages in each queue, all priorities together; 0 if there is none such.

    Args:
        app: the Celery app.
        queues: their names.
        timeout: seconds to wait for a connection and for each answer, on Redis and AMQP.

    Raises:
        kombu.exceptions.OperationalError: if the broker cannot be reached.
        redis.exceptions.RedisError, OSError: if it no longer answers.
    """
    with app.connection_for_read(connect_timeout=timeout) as connection:
        bounds = dict.fromkeys(_TIMEOUTS.get(connection.transport.driver_type, ()), timeout)
        connection.transport_options = bounds | connection.transport_options
        connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0)
        return {queue: _depth(connection, queue) for queue in dict.fromkeys(queues)}


def _depth(connection: Any, queue: str) -> int:
    if connection.transport.driver_type == "redis":
        # A passive declare would look for the queue without the transport's global_keyprefix.
        return int(connection.default_channel._size(queue))  # noqa: SLF001 - every virtual transport has it
    with closing(connection.channel()) as channel:  # its own: on AMQP an error ends a channel
        try:
            return int(channel.queue_declare(queue=queue, passive=True).message_count)
        except connection.channel_errors:
            return 0
