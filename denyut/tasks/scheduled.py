"""What a worker answers when it is asked for its scheduled tasks (``celery inspect scheduled``, Flower).

Celery lists what waits in the worker's memory. Jobs wait in the store and belong to no worker yet, so each
worker lists those of the queues that it consumes, the next ones first, in the same form.
"""

from __future__ import annotations

import logging
from functools import wraps
from typing import TYPE_CHECKING, Any

from celery.worker.control import Panel
from kombu.exceptions import KombuError
from redis.exceptions import RedisError

from denyut.tasks.envelope import ETA_HEADER, Envelope

if TYPE_CHECKING:
    from collections.abc import Collection

    from denyut.app import Denyut

__all__ = ["install_scheduled", "scheduled_jobs"]

logger = logging.getLogger(__name__)

#: As many jobs are listed at most, over all queues.
MOST = 1000
#: Celery's own number for what waits for its time.
_PRIORITY = 6


def install_scheduled() -> None:
    """Let workers list the jobs in the store, too. A second call changes nothing."""
    plain = Panel.data["scheduled"]
    if getattr(plain, "of_denyut", False):
        return

    @wraps(plain)
    def scheduled(state: Any, **kwargs: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = plain(state, **kwargs)
        pulse = getattr(state.app, "denyut", None)
        if pulse is None:
            return found
        queues = {queue.name for queue in state.consumer.task_consumer.queues}
        try:
            return found + scheduled_jobs(pulse, queues, hostname=state.hostname)
        except RedisError as exc:
            logger.warning("inspect scheduled: the jobs in the store cannot be listed: %s", exc)
            return found

    scheduled.of_denyut = True  # type: ignore[attr-defined]
    Panel.data["scheduled"] = Panel.data["dump_schedule"] = scheduled


def scheduled_jobs(pulse: Denyut, queues: Collection[str], *, hostname: str) -> list[dict[str, Any]]:
    """Return the jobs that wait for their time in the store, as Celery lists such tasks.

    Args:
        pulse: the app's Denyut.
        queues: names of the queues whose jobs are meant.
        hostname: the worker that answers.

    Raises:
        redis.exceptions.RedisError: the store cannot be asked.
    """
    client, keys = pulse.store.client, pulse.keys
    pipe = client.pipeline(transaction=False)
    for part in keys.all_partitions():
        pipe.zrange(part.schedule, 0, MOST - 1, withscores=True)
    waiting = sorted((due, job_id.decode()) for found in pipe.execute() for job_id, due in found)[:MOST]
    for _, job_id in waiting:
        pipe.hmget(keys.job(job_id).record, "queue", "msg")
    listed = []
    for (_, job_id), (queue, message) in zip(waiting, pipe.execute() if waiting else [], strict=True):
        if queue is not None and message is not None and queue.decode() in queues:
            listed += _entry(pulse, job_id, message, hostname)
    return listed


def _entry(pulse: Denyut, job_id: str, message: bytes, hostname: str) -> list[dict[str, Any]]:
    try:
        envelope = Envelope.load(message)
        args, kwargs, _ = envelope.decode(pulse.app.conf.accept_content)
    except (ValueError, KeyError, KombuError) as exc:
        logger.warning("inspect scheduled: the message of job %s cannot be read: %s", job_id, exc)
        return []
    name = envelope.headers.get("task")
    request = {
        "id": job_id,
        "name": name,
        "args": args,
        "kwargs": kwargs,
        "type": name,
        "hostname": hostname,
        "time_start": None,
        "acknowledged": False,
        "delivery_info": {
            "exchange": envelope.exchange,
            "routing_key": envelope.routing_key,
            "priority": envelope.properties.get("priority", 0),
            "redelivered": False,
        },
        "worker_pid": None,
    }
    return [{"eta": envelope.headers.get(ETA_HEADER), "priority": _PRIORITY, "request": request}]
