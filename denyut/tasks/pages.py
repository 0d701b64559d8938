"""Turning the pages of indexes that are spread over the partitions: newest first, none left out."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Place", "StoredPlace", "cursor_of", "first_pages", "parse_cursor", "walk"]


class Place(NamedTuple):
    """A place in the order."""

    time: int
    job_id: str


class StoredPlace(Place):
    """The same, as the job store has it. Where Redis lists the job, that counts."""

    __slots__ = ()


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
    """Return the cursor that names a place; None for none. It is for :func:`parse_cursor` alone to read."""
    if place is None:
        return None
    return urlsafe_b64encode(f"{place.time}:{place.job_id}".encode()).decode().rstrip("=")


def parse_cursor(cursor: str | None) -> Place | None:
    """Return the place that a cursor names.

    Raises:
        ValueError: if it is none.
    """
    if cursor is None:
        return None
    try:
        text = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
    except (ValueError, TypeError):
        text = ""
    time, found, job_id = text.partition(":")
    place = Place(int(time), job_id) if found and time.isascii() and time.isdigit() else None
    if cursor_of(place) != cursor:  # not even a letter of it is passed over
        raise ValueError(
            f"cursor={cursor!r}: must be the cursor of a page that was listed before, as it came; "
            "without one the list begins at the newest"
        )
    return place
