"""Text for people: aligned columns, ages, and nothing that a terminal would obey."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["age", "clean", "columns", "json_text", "time_text"]

_UNITS = ((86400, "d"), (3600, "h"), (60, "min"))


def columns(rows: Sequence[Sequence[Any]], head: Sequence[str] = ()) -> str:
    """Return ``rows`` as lines of aligned columns under ``head``; None and empty cells are ``-``."""
    cells = [[clean("-" if cell in (None, "") else cell) for cell in row] for row in rows]
    lines = [list(head), *cells] if head else cells
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def age(then_us: int | None, now_us: int) -> str:
    """Return how long ago ``then_us`` was: ``3.2 s ago``, ``in 5.0 min``; empty for None."""
    if then_us is None:
        return ""
    seconds = (now_us - then_us) / 1e6
    size, unit = next(((size, unit) for size, unit in _UNITS if abs(seconds) >= size), (1, "s"))
    amount = f"{abs(seconds) / size:.1f} {unit}"
    return f"in {amount}" if seconds < 0 else f"{amount} ago"


def time_text(at_us: int) -> str:
    """Return a time in microseconds as ``2026-03-01 10:15:02.113Z``."""
    return datetime.fromtimestamp(at_us / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + "Z"


def clean(value: Any) -> str:
    """Return ``value`` as one line without control characters: it may come from anybody."""
    return "".join(char if char.isprintable() else " " if char.isspace() else "\ufffd" for char in str(value))


def json_text(data: Any, *, indent: int | None = 2) -> str:
    """Return ``data`` as one JSON document; a time is text as in ISO 8601."""
    return json.dumps(data, indent=indent, default=_plain)


def _plain(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
