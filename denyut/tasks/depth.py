"""How many messages wait in a queue of the broker."""

from __future__ import annotations

from typing import Any

__all__ = ["queue_depth"]


def queue_depth(app: Any, queue: str) -> int:
    """Return the number of ready messages in ``queue``, all priorities together; 0 if there is none such.

    A passive declare: kombu's Redis transport sums its priority lists, AMQP asks the server.
    """
    with app.connection_for_read() as connection:
        channel = connection.channel()
        try:
            return int(channel.queue_declare(queue=queue, passive=True).message_count)
        except connection.channel_errors:
            return 0
