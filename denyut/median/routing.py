"""Where the events of a stream go: always to the same shard, and so to the same queue.

A shard's messages are applied one at a time by whoever consumes its queue (``worker-median``), so
that a stream has one writer. Plain workers do not consume median queues unless ``-Q`` names them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from zlib import crc32

from kombu import Exchange, Queue

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from denyut.app import Denyut

__all__ = ["APPLY_TASK", "MedianRoute", "declare_queues", "install_route", "median_queue", "shard_of"]

APPLY_TASK = "denyut.median.apply"


def shard_of(stream: str, shards: int) -> int:
    """Return the shard of ``stream``: CRC-32 of its UTF-8 bytes modulo ``shards``."""
    return crc32(stream.encode()) % shards


def median_queue(pulse: Denyut, shard: int) -> Queue:
    """Return the queue of ``shard``, as Celery itself would make it for ``-Q <its name>``."""
    name = f"{pulse.settings.median_queue}.{shard}"
    return Queue(name, Exchange(name), routing_key=name)


def declare_queues(pulse: Denyut) -> None:
    """Make the median queues known to the app by name, without consuming them by default."""
    table = pulse.app.amqp.queues
    table.select(list(table.consume_from))  # before Celery 5.7, a queue that is added is consumed too
    for shard in range(pulse.settings.median_shards):
        table.add(median_queue(pulse, shard))


class MedianRoute:
    """An entry of ``task_routes``: sends :data:`APPLY_TASK` to the queue of its stream."""

    #: Nothing of other tasks' calls is looked at (``denyut.tasks.bulk.template``).
    only_of = (APPLY_TASK,)

    def __init__(self, pulse: Denyut) -> None:
        self._pulse = pulse

    def __call__(
        self,
        name: str,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *_: Any,
        **__: Any,
    ) -> dict[str, Any] | None:
        """Return the route, or None for any other task. Called by Celery."""
        if name != APPLY_TASK:
            return None
        stream = args[0] if args else (kwargs or {}).get("stream")
        if not isinstance(stream, str):
            return None  # a poison message: it fails in whichever worker gets it
        return {"queue": median_queue(self._pulse, shard_of(stream, self._pulse.settings.median_shards))}


def install_route(pulse: Denyut) -> None:
    """Put the route before those of the app, now or as soon as the app is configured."""
    app = pulse.app

    def prepend(**_: Any) -> None:
        routes = app.conf.task_routes or ()
        routes = routes if isinstance(routes, list | tuple) else (routes,)
        app.conf.task_routes = (MedianRoute(pulse), *routes)

    if app.configured:
        prepend()
    else:
        app.on_after_configure.connect(prepend, weak=False)
