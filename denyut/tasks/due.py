"""Moving many jobs on whose time has come: one script each, few round trips for all, one producer."""

from __future__ import annotations

import logging
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from denyut.scripts import Script, run_all
from denyut.tasks.claim import us
from denyut.tasks.envelope import Envelope, Stamp
from denyut.tasks.expire import tell_expired
from denyut.tasks.publish import publish_all

if TYPE_CHECKING:
    from collections.abc import Sequence

    from denyut.app import Denyut

__all__ = ["move_due"]

DUE = Script("denyut.tasks", "due")

logger = logging.getLogger(__name__)

#: How long a scheduler that has moved a job to QUEUED may take to publish it (s).
_PUBLISH_WITHIN = 10.0
#: When a job that cannot be moved is looked at again (s): the others must not wait for it.
_AGAIN_AFTER = 60.0


def move_due(pulse: Denyut, ids: Sequence[str], *, rules: str = "", events: bool = False) -> int:
    """Publish the jobs ``ids`` whose time has come; end those that came too late.

    A scheduler that dies between the two steps is no loss: the index ``held`` has a deadline for each
    job, after which recovery publishes it.

    Args:
        pulse: the app's Denyut.
        ids: some jobs; what is not due stays as it is.
        rules: which are skipped if they are late (:func:`denyut.tasks.misfire.misfire_rules`).
        events: tell Celery's watchers (Flower) of those that are skipped.

    Returns:
        How many were published or ended.

    Raises:
        redis.exceptions.RedisError, kombu.exceptions.OperationalError: the rest is left to later steps.
    """
    ids = list(dict.fromkeys(ids))
    if not ids:
        return 0
    done: list[str] = []
    with pulse.app.producer_or_acquire() as producer:
        _ = producer.channel  # a broker that cannot be reached is noticed before any job is moved
        replies = _move(pulse, ids, rules)
        messages = []
        try:
            for job_id, reply in replies.items():
                try:
                    message = _follow_up(pulse, job_id, reply, events=events)
                except (ValueError, KeyError):
                    # Its message cannot be read. The others must not wait for it.
                    logger.exception("schedule: job %s could not be moved on", job_id)
                    message = None
                if message is None:
                    done.append(job_id)
                else:
                    messages.append((job_id, *message))
            done.extend(publish_all(pulse, producer, messages))
        finally:
            _release(pulse, done)
    return len(done)


def _move(pulse: Denyut, ids: Sequence[str], rules: str) -> dict[str, Any]:
    """Take the atomic step for each job; return the replies of those that go on."""
    settings, keys = pulse.settings, pulse.keys
    tail = [us(_PUBLISH_WITHIN), us(settings.lease_ttl), rules]
    calls = [DUE.with_(keys.script(job_id), [job_id, *tail]) for job_id in ids]
    replies = dict(zip(ids, run_all(pulse.store.client, calls, raising=False), strict=True))
    for job_id, reply in replies.items():
        if isinstance(reply, Exception):
            _put_off(pulse, job_id, reply)
    return {i: r for i, r in replies.items() if not isinstance(r, Exception) and r[0] != b"NOTHING"}


def _put_off(pulse: Denyut, job_id: str, exc: Exception) -> None:
    client, partition = pulse.store.client, pulse.keys.partition(pulse.keys.partition_of(job_id))
    logger.error("schedule: job %s could not be moved on: %s; again in %g s", job_id, exc, _AGAIN_AFTER)
    client.zincrby(partition.schedule, us(_AGAIN_AFTER), job_id)


def _follow_up(
    pulse: Denyut, job_id: str, reply: list[Any], *, events: bool
) -> tuple[Envelope, Stamp] | None:
    """Tell Celery of a job that expired; return the message of one that is to be published."""
    if reply[0] == b"EXPIRED":
        message, fence, digest, error = reply[1:5]
        tell_expired(pulse, job_id, message, int(fence), digest.decode() or None, error, events=events)
        return None
    message, marker, at, number, expires = reply[1:6]
    left = (int(expires) - int(at)) / 1e6 if int(expires) else None
    stamp = Stamp(gen=int(number), marker=marker.decode(), at=int(at))
    return _expiring(Envelope.load(message), left), stamp


def _expiring(envelope: Envelope, left: float | None) -> Envelope:
    """Tell the worker when the job expires by a clock of today, not by its producer's clock of then."""
    if left is None:
        return envelope
    expires = (datetime.now(UTC) + timedelta(seconds=left)).isoformat()
    return replace(envelope, headers={**envelope.headers, "expires": expires})


def _release(pulse: Denyut, ids: Sequence[str]) -> None:
    held: dict[str, list[str]] = defaultdict(list)
    for job_id in ids:
        held[pulse.keys.partition(pulse.keys.partition_of(job_id)).held].append(job_id)
    pipe = pulse.store.client.pipeline(transaction=False)
    for key, members in held.items():
        pipe.zrem(key, *members)
    pipe.execute()
