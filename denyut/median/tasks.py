"""The Celery task that applies one message of events. A message is itself a job."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from celery.signals import celeryd_init
from redis.exceptions import BusyLoadingError, OutOfMemoryError, ReadOnlyError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from denyut.errors import InvalidStream, PoisonBatch
from denyut.median.apply import apply_batch
from denyut.median.event import check_stream
from denyut.median.packing import decode
from denyut.median.routing import APPLY_TASK, declare_queues, install_route
from denyut.tasks.job_task import JobTask

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["apply_message", "register"]

logger = logging.getLogger(__name__)

# What may be gone on the next try. A batch that cannot be decoded, or a stream that is degraded, stays so.
_PASSING = (RedisConnectionError, RedisTimeoutError, BusyLoadingError, OutOfMemoryError, ReadOnlyError)


def register(pulse: Denyut) -> None:
    """Register the task and its route with the app. Connects to nothing."""

    @pulse.app.task(  # type: ignore[untyped-decorator]
        name=APPLY_TASK,
        base=JobTask,
        bind=True,
        shared=False,
        acks_late=True,
        ignore_result=True,
        # Three events a batch, for Flower to show, take a third of the worker's main process.
        send_events=False,
        serializer="json",
        autoretry_for=_PASSING,
        max_retries=10,
        retry_backoff=True,
        retry_backoff_max=60,
        # The message stays in the record as long as that does: at 1000 events a message, an hour of
        # them would take more memory than the streams. Failures are in the worker's log as well.
        retention=60.0,
    )
    def apply(self: Any, stream: str, batch: str) -> dict[str, int]:
        return apply_message(pulse, stream, batch, token=self.request.id or "")

    install_route(pulse)
    celeryd_init.connect(_declare_on_worker, dispatch_uid="denyut.median", weak=False)


def apply_message(pulse: Denyut, stream: Any, batch: Any, *, token: str = "") -> dict[str, int]:
    """Apply one message and return what it did, for the log.

    Raises:
        PoisonBatch: if it cannot be decoded; nothing was applied.
        StaleWriter, StreamDegraded: see :func:`denyut.median.apply.apply_batch`.
    """
    try:
        check_stream(stream)
    except InvalidStream as exc:
        raise PoisonBatch(str(exc)) from None
    done = apply_batch(pulse, stream, decode(batch), token=token)
    if done.conflicts:
        logger.warning(
            "stream %r: %d event(s) came again with another value; the first stands", stream, done.conflicts
        )
    return {
        "version": done.version,
        "count": done.count,
        "accepted": done.accepted,
        "duplicates": done.duplicates,
        "conflicts": done.conflicts,
    }


def _declare_on_worker(instance: Any = None, **_: Any) -> None:
    pulse = getattr(getattr(instance, "app", None), "denyut", None)
    if pulse is not None:
        declare_queues(pulse)
