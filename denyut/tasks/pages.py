"""Turning the pages of indexes that are spread over the partitions: newest first, none left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Place", "cursor_of", "first_pages", "parse_cursor", "walk"]


class Place(NamedTuple):
    """A place in the order."""

    time: int
    job_id: str


def walk(client: Any, key: str, page: list[Place], size: int) -> Iterator[Place]:
    """Yield the places of one index, from ``page`` on."""
    while page:
        yield from page
        (page,) = first_pages(client, [key], page[-1], size) if len(page) >= size else ([],)


def first_pages(client: Any, keys: list[str], after: Place | None, size: int) -> list[list[Place]]:
    """Return the next places of each index: at least ``size``, if there are so many."""
    newest_first = {"desc": True, "byscore": True, "withscores": True}
    pipe = client.pipeline(transaction=False)
    for key in keys:
        if after is not None:  # all of that very time: the order goes on by id
            pipe.zrange(key, after.time, after.time, **newest_first)
        below = "+inf" if after is None else f"({after.time}"
        pipe.zrange(key, below, "-inf", **newest_first, offset=0, num=size)
    replies = iter(pipe.execute())
    if after is None:
        return [_places(rows) for rows in replies]
    return [[p for p in _places(ties) if p < after] + _places(next(replies)) for ties in replies]


def _places(rows: list[tuple[bytes, float]]) -> list[Place]:
    return [Place(int(score), job_id.decode()) for job_id, score in rows]


def cursor_of(place: Place | None) -> str | None:
    """Return the cursor that names a place; None for none."""
    return None if place is None else f"{place.time}:{place.job_id}"


def parse_cursor(cursor: str | None) -> Place | None:
    """Return the place that a cursor names. Raises ValueError if it is none."""
    if cursor is None:
        return None
    time, found, job_id = cursor.partition(":")
    if not found or not (time.isascii() and time.isdigit()):
        raise ValueError(f"cursor={cursor!r}: must be the cursor of a page that was listed before")
    return Place(int(time), job_id)
