"""A store that is down is left alone for a while, so that nobody waits for it again and again."""

from __future__ import annotations

import logging
from threading import Lock
from time import monotonic

from denyut.config import hide_password

__all__ = ["Breaker"]

logger = logging.getLogger(__name__)

#: How long a store that was found to be down is left alone (s).
PAUSE = 2.0


#: How databases say that a table is not there.
_NO_TABLES = ("no such table", "UndefinedTable")


class Breaker:
    """Knows whether the store is up, and says so in the log: one line when it is lost, one when it is back.

    Args:
        url: of the store; its password is not shown.
        pause: seconds to leave it alone after a failure.
    """

    def __init__(self, url: str, pause: float = PAUSE) -> None:
        self._url = hide_password(url)
        self._secret = _password(url)
        self._pause = pause
        self._until = 0.0
        self._lock = Lock()
        #: Why it is down; empty if it is up.
        self.error = ""

    @property
    def is_open(self) -> bool:
        """Whether the store is to be left alone now."""
        return monotonic() < self._until

    def failed(self, exc: BaseException) -> str:
        """Note that the store could not be written; returns why, without the password."""
        text = self.explain(exc)
        with self._lock:
            first, self.error = not self.error, text
            self._until = monotonic() + self._pause
        if first:
            logger.error(
                "the job store %s cannot be written (%s); jobs go on, Redis keeps what it misses",
                self._url,
                text,
            )
        return text

    def explain(self, exc: BaseException) -> str:
        """Return an error in one line, without the password."""
        text = f"{type(exc).__name__}: {str(exc).splitlines()[0] if str(exc) else ''}"[:500]
        text = text.replace(self._secret, "***") if self._secret else text
        if any(words in text for words in _NO_TABLES):
            text += "; make the tables: celery -A APP denyut migrate"
        return text

    def put_off(self) -> None:
        """Leave the store alone for a while longer: somebody is finding out whether it is back."""
        self._until = monotonic() + self._pause

    def worked(self) -> None:
        """Note that the store was written."""
        with self._lock:
            back, self.error = bool(self.error), ""
            self._until = 0.0
        if back:
            logger.warning("the job store %s is back; what it misses is written now", self._url)


def _password(url: str) -> str:
    credentials = url.partition("://")[2].rpartition("@")[0]
    return credentials.partition(":")[2]
