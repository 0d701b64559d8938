"""A walk over what the store has, page by page."""

from __future__ import annotations

import pytest

from denyut.database.save import save_jobs
from denyut.tasks.pages import Place, StoredPlace
from denyut.tasks.saving.applier import Applier
from denyut.tasks.saving.stored_places import StoredPlaces
from denyut.wanted import Wanted


@pytest.fixture
def filled(shelves):
    given = {"prefix": shelves.pulse.settings.prefix, "version": 1, "state": "FAILED", "settled": True}
    rest = dict.fromkeys(("key", "digest", "queued_at", "due", "finished_at", "forget_at"))
    rows = [
        {**given, **rest, "id": f"j{n}", "task": "t\\x00" if n == 2 else "t", "queue": "q", "at": n}
        | {"budget": "crashes" if n == 3 else None, "record": "{}"}
        for n in range(7)
    ]
    with shelves.pulse.database.begin() as connection:
        save_jobs(connection, rows)
    return shelves.pulse


@pytest.mark.parametrize("size", [1, 3, 7, 10])
def test_it_goes_on_from_page_to_page_to_the_end(filled, size):
    walk = StoredPlaces(filled, Wanted(), Place(6, "j6"), size)
    assert list(walk) == [StoredPlace(n, f"j{n}") for n in reversed(range(6))]
    assert walk.complete


def test_dead_letters_are_a_walk_of_their_own(filled):
    assert [place.job_id for place in StoredPlaces(filled, Wanted(), None, 5, dead=True)] == ["j3"]


def test_a_text_is_looked_for_as_the_column_has_it(filled):
    assert [place.job_id for place in StoredPlaces(filled, Wanted(task="t\0"), None, 5)] == ["j2"]


def test_where_the_store_cannot_be_asked_it_ends_and_says_so(filled):
    walk = StoredPlaces(filled, Wanted(), None, 2)
    steps = iter(walk)
    assert next(steps) == (6, "j6")
    filled.saving.breaker.failed(OSError("away"))
    assert (list(steps), walk.complete) == ([StoredPlace(5, "j5")], False)


def test_without_a_store_there_is_nothing_and_nothing_is_missing(bench):
    walk = StoredPlaces(bench.pulse, Wanted(), None, 5)
    assert (list(walk), walk.complete) == ([], True)


def test_a_dead_letter_that_redis_has_lost_is_listed_and_read(shelves):
    job = shelves.work.delay(bad=True)
    other = shelves.work.delay(bad=True)
    shelves.bench.drain()
    Applier(shelves.pulse).step()
    keys = shelves.pulse.keys.job(job.id)
    shelves.client.delete(keys.record, shelves.pulse.keys.partition(keys.partition).dead)
    page = shelves.pulse.jobs.dead()
    assert {letter.id for letter in page.letters} == {job.id, other.id}
    assert {letter.record.error for letter in page.letters} == {("ValueError", "bad")}
