from __future__ import annotations

import pytest

from denyut.database.engine import Database
from denyut.database.read import read_events, read_owed, read_records
from denyut.database.save import save_events, save_jobs

NOW = 1_000


@pytest.fixture
def database(tmp_path):
    made = Database(f"sqlite:///{tmp_path}/jobs.db", timeout=5.0)
    made.create()
    given = {"prefix": "d", "state": "QUEUED", "settled": False, "task": "t", "queue": "q"}
    rest = dict.fromkeys(("key", "digest", "budget", "queued_at", "due", "finished_at"))
    rows = [
        {**given, **rest, "id": f"j{n}", "version": n, "forget_at": forget, "record": f'{{"n": "{n}"}}'}
        for n, forget in enumerate([None, NOW - 1, NOW + 2, None, NOW, NOW + 1, NOW + 2])
    ]
    with made.begin() as connection:
        save_jobs(connection, [*rows, {**rows[0], "prefix": "e"}])
    yield made
    made.close()


def test_redis_should_have_what_is_not_over_or_not_to_be_forgotten_yet(database):
    with database.begin() as connection:
        assert [each.id for each in read_owed(connection, "d", NOW)] == ["j0", "j3", "j5", "j2", "j6"]


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 9])
def test_pages_go_on_after_the_last_job_through_both_parts(database, limit):
    found, after = [], None
    with database.begin() as connection:
        while page := read_owed(connection, "d", NOW, after=after, limit=limit):
            assert len(page) <= limit
            found += page
            after = page[-1]
    assert found == [(0, "j0", 0), (0, "j3", 3), (NOW + 1, "j5", 5), (NOW + 2, "j2", 2), (NOW + 2, "j6", 6)]


def test_records_of_one_deployment_come_with_their_versions(database):
    with database.begin() as connection:
        assert read_records(connection, "d", ["j1", "j3", "nobody"]) == {
            "j1": (1, '{"n": "1"}'),
            "j3": (3, '{"n": "3"}'),
        }
        assert read_records(connection, "e", ["j1"]) == {}


def test_a_story_is_read_in_the_order_of_its_entries(database):
    given = {"prefix": "d", "job_id": "j1", "type": "t"}
    rows = [
        {**given, "ms": ms, "seq": seq, "fields": f"{ms}-{seq}"} for ms, seq in ((9, 0), (10, 1), (10, 0))
    ]
    with database.begin() as connection:
        save_events(connection, [*rows, {**rows[0], "job_id": "j2"}])
        assert read_events(connection, "d", "j1") == [(9, 0, "9-0"), (10, 0, "10-0"), (10, 1, "10-1")]
