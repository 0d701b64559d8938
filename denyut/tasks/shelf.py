"""Putting the messages of clients without Denyut that are for later into the store, on receipt.

Celery would keep such a message in the worker's memory, unacknowledged, until its time: with many of
them the worker grows without bound, and after the broker's visibility timeout there are copies. Here
the record keeps it, and the broker's message is acknowledged.
"""

from __future__ import annotations

import logging
from time import monotonic
from typing import TYPE_CHECKING, Any

from kombu.exceptions import KombuError
from redis.exceptions import RedisError

from denyut.errors import DenyutError
from denyut.scripts import Script
from denyut.states import State
from denyut.tasks.claim import us
from denyut.tasks.envelope import ETA_HEADER, HEADER, Envelope
from denyut.tasks.key import check_id
from denyut.tasks.keying import KEY_HEADER, key_of_message
from denyut.tasks.times import seconds_until

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["Shelf"]

SHELVE = Script("denyut.tasks", "shelve")

logger = logging.getLogger(__name__)

#: Longest wait for Redis (s): the worker's main loop waits with it.
_PATIENCE = 1.0
#: After an error, messages are left to Celery for so long (s).
_PAUSE = 5.0


class Shelf:
    """Where messages for later go. Used by the worker's main loop alone.

    Args:
        pulse: the app's Denyut.
    """

    def __init__(self, pulse: Denyut) -> None:
        self._pulse = pulse
        self._client: Any = None
        self._not_before = 0.0

    def take(self, task: Any, message: Any) -> bool:
        """Keep ``message`` in the store if it is for later; True if it may be acknowledged.

        False leaves it to Celery, as it was: it is for now, it cannot be read, its job runs, or Redis
        cannot be reached.
        """
        headers = message.headers
        # One with a stamp was published by us, when it was due.
        if not headers.get("eta") or HEADER in headers or message.errors or monotonic() < self._not_before:
            return False
        try:
            delay = seconds_until(self._pulse.app, headers["eta"])
            if delay <= 0:
                return False
            return self._shelve(task, message, delay)
        except RedisError as exc:
            self._not_before = monotonic() + _PAUSE
            logger.warning("Redis: %s; messages for later stay in memory for %g s", exc, _PAUSE)
        except (DenyutError, KombuError, ValueError) as exc:
            logger.info("job %s: left to Celery until it is due: %s", headers.get("id"), exc)
        return False

    def _shelve(self, task: Any, message: Any, delay: float) -> bool:
        pulse, headers = self._pulse, message.headers
        job_id = check_id(headers["id"])
        envelope = Envelope.received(message)
        envelope.headers[ETA_HEADER], envelope.headers["eta"] = headers["eta"], None
        digest, key = None, ["", "", "", "", ""]
        if headers.get(KEY_HEADER) is not None:
            # Asked first, as to hold a key is not done with this client.
            if state := self._redis().hget(pulse.keys.job(job_id).record, "state"):
                return _is_known(state)
            found = key_of_message(pulse, task, job_id, _request_of(pulse, envelope))
            digest = found.digest
            key = [found.key, found.digest, found.fingerprint, found.follows, found.conflict, *found.fields]
        expires = headers.get("expires")
        left = "" if expires is None else us(seconds_until(pulse.app, expires, "expires"))
        retention = task.retention or pulse.settings.retention
        args = [job_id, task.name, envelope.queue, envelope.dump(), us(delay), left, retention, *key]
        code, detail = SHELVE(self._redis(), pulse.keys.script(job_id, digest), args)
        if code == b"EXISTS":
            return _is_known(detail)
        logger.info("job %s: waits in the store, it is due in %.3f s", job_id, delay)
        return True

    def _redis(self) -> Any:
        if self._client is None:
            timeout = min(_PATIENCE, self._pulse.settings.redis_timeout)
            self._client = self._pulse.store.fresh(retries=0, timeout=timeout)
        return self._client


def _is_known(state: bytes) -> bool:
    """Whether a copy is not needed: its job is kept already, or has ended."""
    return State(state.decode()) not in (State.QUEUED, State.RUNNING)


def _request_of(pulse: Denyut, envelope: Envelope) -> dict[str, Any]:
    args, kwargs, _ = envelope.decode(pulse.app.conf.accept_content)
    return {**envelope.headers, "args": args, "kwargs": kwargs}
