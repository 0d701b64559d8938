"""How the relaying of one outbox goes: told to Redis by the worker that does it, read by anybody."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from redis.exceptions import RedisError

from denyut.database.outbox import is_missing
from denyut.tasks.outbox.places import places

if TYPE_CHECKING:
    from denyut.app import Denyut
    from denyut.database.outbox_look import Backlog
    from denyut.tasks.outbox.places import Place

__all__ = ["Report", "Told", "read_told"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What the relays have told of one outbox. Ages are in seconds; None: never.

    ``waiting`` and ``aside`` were counted ``counted_s`` ago, up to 10,000; ``oldest_s`` is as of now, if what
    was the oldest then still waits. ``error`` is empty if the database could be used when last tried.
    """

    shown: str
    waiting: int
    oldest_s: float
    aside: int
    counted_s: float | None
    sent: int
    refused: int
    failures: int
    error: str
    error_s: float | None


class Report:
    """Tells how one relay is doing: in the log when it changes, and to Redis."""

    def __init__(self, pulse: Denyut, place: Place, secret: str | None) -> None:
        self._pulse = pulse
        self._place = place
        self._secret = secret
        self.error = ""

    def failed(self, exc: BaseException) -> None:
        """Note that the database could not be read, or written. One line in the log when it begins."""
        text = f"{type(exc).__name__}: {str(exc).splitlines()[0] if str(exc) else ''}"[:500]
        text = text.replace(self._secret, "***") if self._secret else text
        if is_missing(exc):
            text += "; make the table: celery -A APP denyut outbox migrate"
        if not self.error:
            logger.error("the outbox in %s cannot be relayed (%s); trying again", self._place.shown, text)
        self.error = text
        pipe = self._pulse.store.client.pipeline(transaction=False)
        key = self._pulse.keys.relaying(self._place.name)
        pipe.hset(key, mapping={"error": text, "error_at": self._now()})
        pipe.hincrby(key, "failures", 1)
        self._tell(pipe)

    def worked(self, sent: int, refused: int) -> None:
        """Note that the database was read, and written, and how many jobs were sent, or could not be."""
        back, self.error = bool(self.error), ""
        if back:
            logger.warning("the outbox in %s is relayed again", self._place.shown)
        if not (back or sent or refused):
            return
        pipe = self._pulse.store.client.pipeline(transaction=False)
        key = self._pulse.keys.relaying(self._place.name)
        pipe.hdel(key, "error", "error_at")
        pipe.hincrby(key, "sent", sent)
        pipe.hincrby(key, "refused", refused)
        self._tell(pipe)

    def counted(self, found: Backlog) -> None:
        """Tell what is in the outbox."""
        pipe = self._pulse.store.client.pipeline(transaction=False)
        told = {"waiting": found.waiting, "oldest": round(found.oldest_s * 1e6), "aside": found.aside}
        pipe.hset(self._pulse.keys.relaying(self._place.name), mapping={**told, "at": self._now()})
        self._tell(pipe)

    def _now(self) -> int:
        try:
            return self._pulse.store.now_us()
        except RedisError:
            return 0

    def _tell(self, pipe: Any) -> None:
        try:
            pipe.execute()
        except RedisError as exc:  # the relay finds out by itself; what it does goes on
            logger.debug("outbox: %s", exc)


def read_told(pulse: Denyut, client: Any) -> list[Told]:
    """Read what the relays have told of all outboxes, in one round trip.

    Raises:
        redis.exceptions.RedisError: it cannot be asked.
    """
    known = places(pulse)
    if not known:
        return []
    pipe = client.pipeline(transaction=False)
    pipe.time()
    for place in known:
        pipe.hgetall(pulse.keys.relaying(place.name))
    (seconds, micros), *rest = pipe.execute()
    now = int(seconds) * 1_000_000 + int(micros)
    return [_told(place.shown, raw, now) for place, raw in zip(known, rest, strict=True)]


def _told(shown: str, raw: dict[bytes, bytes], now: int) -> Told:
    said = {name.decode(): value.decode("utf-8", "replace") for name, value in raw.items()}

    def since(name: str) -> float | None:
        return max(now - int(said[name]), 0) / 1e6 if name in said else None

    waiting, counted = int(said.get("waiting", 0)), since("at")
    return Told(
        shown=shown,
        waiting=waiting,
        oldest_s=int(said.get("oldest", 0)) / 1e6 + (counted or 0.0) if waiting else 0.0,
        aside=int(said.get("aside", 0)),
        counted_s=counted,
        sent=int(said.get("sent", 0)),
        refused=int(said.get("refused", 0)),
        failures=int(said.get("failures", 0)),
        error=said.get("error", ""),
        error_s=since("error_at"),
    )
