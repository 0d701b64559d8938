from __future__ import annotations

import pytest
from sqlalchemy import select

from denyut.database.engine import Database
from denyut.database.prune import prune, prune_gone
from denyut.database.read import read_gone
from denyut.database.save import save_events, save_jobs
from denyut.database.tables import tables

NOW = 1_000


@pytest.fixture
def database(tmp_path):
    made = Database(f"sqlite:///{tmp_path}/jobs.db", timeout=5.0)
    made.create()
    given = {"prefix": "d", "state": "FAILED", "settled": True, "task": "t", "queue": "q", "record": "{}"}
    rest = dict.fromkeys(("key", "digest", "budget", "queued_at", "due", "finished_at"))
    times = {"live": None, "old": 5, "older": 3, "young": NOW, "oldest": 1}
    rows = [{**given, **rest, "id": name, "version": 1, "forget_at": at} for name, at in times.items()]
    with made.begin() as connection:
        save_jobs(connection, [*rows, {**rows[1], "prefix": "e"}])
        event = {"prefix": "d", "ms": 1, "seq": 0, "type": "t", "fields": "{}"}
        save_events(connection, [{**event, "job_id": name} for name in times])
    yield made
    made.close()


def left(database) -> tuple[set[str], set[str]]:
    jobs, events = tables()
    with database.begin() as connection:
        found = connection.execute(select(jobs.c.id).where(jobs.c.prefix == "d")).scalars()
        return set(found), set(connection.execute(select(events.c.job_id)).scalars())


def test_the_oldest_go_first_with_their_events_and_what_is_not_over_stays(database):
    with database.begin() as connection:
        assert prune(connection, "d", NOW, now_us=2 * NOW, limit=2) == 2
    assert left(database) == ({"live", "old", "young"},) * 2
    with database.begin() as connection:
        assert prune(connection, "d", NOW, now_us=2 * NOW, limit=2) == 1
    assert left(database) == ({"live", "young"},) * 2
    with database.begin() as connection:
        assert prune(connection, "d", NOW, now_us=2 * NOW) == 0


def test_another_deployment_keeps_its_own(database):
    jobs, _ = tables()
    with database.begin() as connection:
        prune(connection, "d", NOW, now_us=2 * NOW)
        found = connection.execute(select(jobs.c.id).where(jobs.c.prefix == "e")).scalars()
        assert list(found) == ["old"]


def test_of_a_deleted_job_its_last_state_is_kept_for_a_while(database):
    ids = ["live", "old", "older", "young", "oldest", "nobody"]
    with database.begin() as connection:
        prune(connection, "d", NOW, now_us=2 * NOW, limit=2)
        prune(connection, "d", NOW, now_us=3 * NOW)
        found = read_gone(connection, "d", ids)
        assert found == {
            "oldest": ("FAILED", None, 2000),
            "older": ("FAILED", None, 2000),
            "old": ("FAILED", None, 3000),
        }
        assert read_gone(connection, "e", ids) == {}
        assert prune_gone(connection, "d", 2 * NOW) == 0
        assert prune_gone(connection, "d", 3 * NOW, limit=1) == 1
        assert prune_gone(connection, "d", 3 * NOW) == 1
        assert set(read_gone(connection, "d", ids)) == {"old"}


def test_a_job_that_is_deleted_again_is_gone_since_then(database):
    with database.begin() as connection:
        prune(connection, "d", NOW, now_us=2 * NOW)
        given = {"prefix": "d", "state": "COMPLETED", "settled": True, "task": "t", "queue": "q"}
        rest = dict.fromkeys(("key", "digest", "budget", "queued_at", "due", "at"))
        row = {**given, **rest, "id": "old", "version": 2, "finished_at": 7, "forget_at": 8, "record": "{}"}
        save_jobs(connection, [row])
        prune(connection, "d", NOW, now_us=3 * NOW)
        assert read_gone(connection, "d", ["old"]) == {"old": ("COMPLETED", 7, 3000)}
