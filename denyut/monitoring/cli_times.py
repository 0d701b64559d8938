"""Times as people write them on the command line."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

import click

__all__ = ["moment", "past", "seconds"]

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")


def seconds(_context: Any, _parameter: Any, value: str | None) -> float | None:
    """Return a length of time such as ``90``, ``90s``, ``10m``, ``2h`` or ``1d``, in seconds."""
    if value is None:
        return None
    match = _AMOUNT.fullmatch(value.strip().lower())
    if match is None or match[2] not in _UNITS:
        raise click.BadParameter(f"{value!r}: must be a time such as 90, 90s, 10m, 2h or 1d")
    return float(match[1]) * _UNITS[match[2]]


def moment(_context: Any, _parameter: Any, value: str | None) -> datetime | None:
    """Return a time of day as ISO 8601 writes it; without a zone it is that of the clock on the wall."""
    if value is None:
        return None
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        raise click.BadParameter(f"{value!r}: must be a time such as 2026-12-24T18:00:00+01:00") from None
    return found if found.tzinfo else found.astimezone()


def past(context: Any, parameter: Any, value: str | None) -> float | datetime | None:
    """Return how long ago (``2h``: in seconds from now, so it is negative), or a time of day."""
    if value is None:
        return None
    if _AMOUNT.fullmatch(value.strip().lower()):
        return -(seconds(context, parameter, value) or 0.0)
    try:
        return moment(context, parameter, value)
    except click.BadParameter:
        wanted = "how long ago (90s, 10m, 2h, 1d), or a time such as 2026-12-24T18:00:00+01:00"
        raise click.BadParameter(f"{value!r}: must be {wanted}") from None
