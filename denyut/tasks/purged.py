"""Purging a queue cancels its jobs.

``app.control.purge()``, ``celery purge`` and ``celery worker --purge`` delete the messages of a queue.
The jobs stay, QUEUED, and recovery would take their messages for lost and publish them again. So a
purge by one of these ways ends them, and Celery is told as of any cancelled job. A queue that is
deleted behind Celery's back is a loss, and is mended.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kombu.utils.imports import symbol_by_name

from denyut.tasks.cancellation import cancel_waiting, who
from denyut.tasks.saving.audit import audited

if TYPE_CHECKING:
    from collections.abc import Iterator

    from denyut.app import Denyut

__all__ = ["install_purge", "purging", "queued_in"]

logger = logging.getLogger(__name__)

_A_TRIP = 1000


def install_purge(pulse: Denyut) -> None:
    """Let purges cancel jobs: those of ``app.control``, and those through a connection of the app's own.

    (Connections of the pool are shared by all apps of the process with one broker, so they do not know
    whose purge it is.)
    """
    app, amqp = pulse.app, pulse.app.amqp
    connection, control = amqp.Connection, symbol_by_name(app.control_cls)

    class Connection(connection):  # type: ignore[misc, valid-type]  # kombu has no types
        """The app's connection to its broker."""

        def channel(self) -> Any:
            channel = super().channel()
            purge = channel.queue_purge

            def queue_purge(queue: str, *args: Any, **kwargs: Any) -> Any:
                with purging(pulse, [queue]):
                    return purge(queue, *args, **kwargs)

            channel.queue_purge = queue_purge
            return channel

    class Control(control):  # type: ignore[misc, valid-type]  # celery has no types
        """The app's remote control."""

        def purge(self, *args: Any, **kwargs: Any) -> Any:
            with purging(pulse, list(app.amqp.queues.consume_from)):
                return super().purge(*args, **kwargs)

        discard_all = purge

    amqp.Connection, app.control_cls = Connection, Control
    app.__dict__.pop("control", None)  # made before, if somebody has asked for it


@contextmanager
def purging(pulse: Denyut, queues: list[str]) -> Iterator[None]:
    """Cancel the jobs that waited in ``queues``, once what stands inside has deleted their messages."""
    waiting = {queue: list(queued_in(pulse, queue)) for queue in queues}
    yield
    for queue, job_ids in waiting.items():
        _cancel(pulse, queue, job_ids)


def queued_in(pulse: Denyut, queue: str) -> Iterator[str]:
    """Yield the jobs that wait in ``queue``, but for those whose message a worker has in hand."""
    known = pulse.app.amqp.queues.get(queue)
    names = {queue, known.routing_key if known is not None else queue}
    client = pulse.store.client
    for part in pulse.keys.all_partitions():
        held = {
            job_id
            for job_id, _ in client.zrangebyscore(part.held, pulse.store.now_us(), "+inf", withscores=True)
        }
        ids = [job_id for job_id in client.zrange(part.queued, 0, -1) if job_id not in held]
        for at in range(0, len(ids), _A_TRIP):
            some = [job_id.decode() for job_id in ids[at : at + _A_TRIP]]
            pipe = client.pipeline(transaction=False)
            for job_id in some:
                pipe.hmget(pulse.keys.job(job_id).record, "state", "queue")
            for job_id, (state, found) in zip(some, pipe.execute(), strict=True):
                if state == b"QUEUED" and found is not None and found.decode() in names:
                    yield job_id


def _cancel(pulse: Denyut, queue: str, job_ids: list[str]) -> None:
    if not job_ids:
        return
    text = f"purged from queue {queue} by {who()}"
    with audited(pulse, "purge queue", queue=queue) as entry:
        count = sum(cancel_waiting(pulse, job_id, text) for job_id in job_ids)
        entry.more["count"] = count
    if count:
        logger.warning("queue %s was purged: %d jobs are cancelled", queue, count)
