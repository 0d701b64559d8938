"""Letting go of a delivery without touching the broker's entry.

On kombu's Redis transport all copies of a redelivered message share one delivery tag, hence one
entry in ``unacked``. A duplicate that acknowledged would remove the entry of the owner that is still
running. So it only forgets the message in this process, and frees its place in the prefetch window.
This rests on kombu internals (``virtual.QoS``) and is kept in this one file.
"""

from __future__ import annotations

from typing import Any

from kombu.transport import virtual

__all__ = ["forget"]


def forget(request: Any) -> None:
    """Let go of the message of ``request``; acknowledge it where copies do not share an entry."""
    if request.acknowledged:
        return
    message = request.message
    qos = getattr(message.channel, "qos", None)
    if isinstance(qos, virtual.QoS) and type(qos).ack is not virtual.QoS.ack:
        virtual.QoS.ack(qos, message.delivery_tag)
        message._state = "ACK"  # noqa: SLF001 - else kombu would let it be acknowledged again
        request.acknowledged = True
    else:
        request.acknowledge()
