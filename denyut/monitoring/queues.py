"""Which queues of the broker concern an app."""

from __future__ import annotations

from typing import TYPE_CHECKING

from denyut.median.routing import median_queue

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["known_queues"]


def known_queues(pulse: Denyut) -> list[str]:
    """Return the names of the app's queues and of the median queues."""
    shards = range(pulse.settings.median_shards)
    names = [*pulse.app.amqp.queues, *(median_queue(pulse, shard).name for shard in shards)]
    return list(dict.fromkeys(names))
