"""A walk over the places that the job store has, newest first: read page by page, in bounded time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from denyut.tasks.pages import StoredPlace
from denyut.tasks.saving.snapshot import as_column

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from denyut.app import Denyut
    from denyut.tasks.pages import Place
    from denyut.wanted import Wanted

__all__ = ["StoredPlaces"]


class StoredPlaces:
    """The jobs of the store that are wanted. Without a store there are none.

    Args:
        pulse: the app's Denyut.
        wanted: which jobs.
        after: where to begin.
        size: places in one query.
        dead: only dead letters.
    """

    def __init__(
        self, pulse: Denyut, wanted: Wanted, after: Place | None, size: int, *, dead: bool = False
    ) -> None:
        self._pulse, self._after, self._size, self._dead = pulse, after, size, dead
        task, key = (text if text is None else as_column(text) for text in (wanted.task, wanted.key))
        self._wanted = replace(wanted, task=task, key=key)
        #: False if the store could not be asked, so that some are missing.
        self.complete = True

    def __iter__(self) -> Iterator[StoredPlace]:
        """Yield the places; ends, with ``complete`` False, when the store cannot be asked."""
        before: tuple[int, str] | None = self._after
        while self._pulse.keys.stored:
            rows: list[tuple[int, str]] | None = self._pulse.saving.ask(self._read(before))
            if rows is None:
                self.complete = False
                return
            yield from (StoredPlace(*row) for row in rows)
            if len(rows) < self._size:
                return
            before = rows[-1]

    def _read(self, before: tuple[int, str] | None) -> Callable[[], list[tuple[int, str]]]:
        from denyut.database.places import read_dead_places, read_places

        read = read_dead_places if self._dead else read_places

        def page() -> list[tuple[int, str]]:
            with self._pulse.database.begin() as connection:
                return read(
                    connection, self._pulse.settings.prefix, self._wanted, before=before, limit=self._size
                )

        return page
