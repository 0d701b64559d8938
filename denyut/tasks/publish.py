"""Publishing many kept messages: in one round trip where the broker is the Redis that has the records."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from kombu.exceptions import ContentDisallowed, EncodeError, OperationalError
from redis.exceptions import RedisError

from denyut.tasks.wire import Catcher

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from denyut.app import Denyut
    from denyut.tasks.envelope import Envelope, Stamp
    from denyut.tasks.wire import Wire

__all__ = ["publish_all"]

logger = logging.getLogger(__name__)

#: What a message raises that will never be one.
_UNREADABLE = (ValueError, TypeError, LookupError, EncodeError, ContentDisallowed)


def publish_all(
    pulse: Denyut, producer: Any, messages: Sequence[tuple[str, Envelope, Stamp]]
) -> Iterator[str]:
    """Publish ``messages`` (job id, message, stamp); yield the id of each that needs no more care.

    One that can never be published is logged, and yielded too.

    Raises:
        redis.exceptions.RedisError, kombu.exceptions.OperationalError: those not yielded are not published.
    """
    catcher = Catcher(pulse)
    wires: list[tuple[str, Wire]] = []
    slow: list[tuple[str, Envelope, Stamp]] = []
    for job_id, envelope, stamp in messages:
        try:
            wire = _catch(catcher, producer, envelope, envelope.publish_options(pulse.app, stamp))
        except _UNREADABLE:
            logger.exception("job %s: its message cannot be published", job_id)
            yield job_id
            continue
        if wire is None:
            slow.append((job_id, envelope, stamp))
        else:
            wires.append((job_id, wire))
    yield from _push(pulse, wires)
    for job_id, envelope, stamp in slow:
        try:
            envelope.publish(pulse.app, stamp, producer=producer)
        except _UNREADABLE:
            logger.exception("job %s: its message cannot be published", job_id)
        yield job_id


def _catch(catcher: Catcher, producer: Any, envelope: Envelope, options: dict[str, Any]) -> Wire | None:
    if not catcher.can_catch(producer):
        return None
    try:
        # Without retries: they would make another channel, on which nothing is caught.
        return catcher.catch(producer, envelope.body, {**options, "retry": False})
    except (RedisError, OperationalError, OSError):
        return None  # published by itself it says what is wrong, or mends its connection


def _push(pulse: Denyut, wires: list[tuple[str, Wire]]) -> Iterator[str]:
    pipe = pulse.store.client.pipeline(transaction=False)
    for _, wire in wires:
        for key in wire.lists:
            pipe.lpush(key, wire.payload)
    replies = iter(pipe.execute(raise_on_error=False))
    failed: Exception | None = None
    for job_id, wire in wires:
        errors = [e for e in (next(replies) for _ in wire.lists) if isinstance(e, Exception)]
        failed = errors[0] if errors else failed
        if not errors:
            yield job_id
    if failed is not None:
        raise OperationalError(str(failed)) from failed
