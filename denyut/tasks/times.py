"""From what people write as a time to seconds from now.

Only here a clock of a host is read for a schedule: the caller's own, once. From then on Redis' clock
counts, so a host whose clock is wrong is wrong about the times of day it names, and about no duration.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from math import isfinite
from numbers import Real
from typing import Any

from celery.utils.time import maybe_make_aware

__all__ = ["as_given", "delay_of", "eta_text", "finite", "iso_in", "seconds_until"]


def as_given(app: Any, when: Any) -> str:
    """Return the time ``when`` as ISO 8601 text: what the caller said, to the microsecond.

    Args:
        app: the Celery app, whose way it is to take a time without a zone for UTC.
        when: a datetime, or ISO 8601 text.
    """
    return when if isinstance(when, str) else str(maybe_make_aware(when, app.timezone).isoformat())


def delay_of(app: Any, countdown: float | None, eta: Any) -> float:
    """Return the seconds until a job is due, by the producer's clock; Redis' clock takes over from here."""
    if countdown:
        return finite(countdown, "countdown")
    return seconds_until(app, eta) if eta else 0.0


def eta_text(app: Any, countdown: float | None, eta: Any, delay: float) -> str:
    """Return the time for which a job was meant, ``delay`` seconds from now, as its message says it."""
    in_time = isinstance(eta, datetime | str) and not countdown
    return as_given(app, eta) if in_time else iso_in(delay)


def seconds_until(app: Any, when: Any, name: str = "eta") -> float:
    """Return the seconds from now to ``when``, negative if it has passed.

    Args:
        app: the Celery app, whose way it is to take a time without a zone for UTC.
        when: a datetime, ISO 8601 text, or a number of seconds from now.
        name: what to call it in an error.

    Raises:
        ValueError: if it is none of these.
    """
    if isinstance(when, Real):
        return finite(when, name)
    if isinstance(when, str):
        try:
            when = datetime.fromisoformat(when)
        except ValueError:
            raise ValueError(f"{name}={when!r}: must be a time as ISO 8601 writes it") from None
    if not isinstance(when, datetime):
        raise ValueError(f"{name}={when!r}: must be a datetime, ISO 8601 text, or a number of seconds")  # noqa: TRY004 - one kind of error for every bad time
    # Both in UTC: Python subtracts times of one zone by their wall clock, an hour wrong across a change.
    aware: datetime = maybe_make_aware(when, app.timezone)
    return (aware.astimezone(UTC) - _now()).total_seconds()


def finite(seconds: Any, name: str) -> float:
    """Return ``seconds`` as a float. Raises ValueError, with ``name``, if it is no finite number."""
    if not isinstance(seconds, Real) or not isfinite(seconds):
        raise ValueError(f"{name}={seconds!r}: must be a finite number of seconds")
    return float(seconds)


def iso_in(seconds: float, name: str = "countdown") -> str:
    """Return the time of ``seconds`` from now as ISO 8601 text, in UTC.

    Raises:
        ValueError: if that is after the year 9999, where Python's calendar ends.
    """
    try:
        return (_now() + timedelta(seconds=seconds)).isoformat()
    except OverflowError:
        raise ValueError(f"{name}={seconds!r}: must end before the year 10000") from None


def _now() -> datetime:
    return datetime.now(UTC)
