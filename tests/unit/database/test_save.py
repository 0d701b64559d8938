from __future__ import annotations

import pytest
from sqlalchemy import select

from denyut.database.engine import Database
from denyut.database.save import save_events, save_jobs
from denyut.database.tables import tables


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request, tmp_path):
    url = f"sqlite:///{tmp_path}/jobs.db"
    if request.param == "postgresql":
        url = request.getfixturevalue("postgres")
    made = Database(url, timeout=5.0)
    made.create()
    yield made
    made.close()


def row(job_id: str, version: int, state: str = "QUEUED", prefix: str = "d") -> dict:
    given = {"prefix": prefix, "id": job_id, "version": version, "state": state, "settled": False}
    rest = dict.fromkeys(("key", "digest", "budget", "queued_at", "due", "finished_at", "forget_at"))
    return {**given, "task": "t", "queue": "q", **rest, "record": "{}"}


def states(database: Database) -> dict[tuple[str, str], tuple[int, str]]:
    jobs, _ = tables()
    with database.begin() as connection:
        return {(r.prefix, r.id): (r.version, r.state) for r in connection.execute(select(jobs))}


def test_only_a_higher_version_replaces_a_row(database):
    for version, state in ((5, "RUNNING"), (3, "QUEUED"), (5, "FAILED"), (9, "COMPLETED"), (8, "RUNNING")):
        with database.begin() as connection:
            save_jobs(connection, [row("a", version, state), row("b", 1)])
    assert states(database) == {("d", "a"): (9, "COMPLETED"), ("d", "b"): (1, "QUEUED")}


def test_two_deployments_may_have_the_same_id(database):
    with database.begin() as connection:
        save_jobs(connection, [row("a", 1), row("a", 2, prefix="e")])
    assert len(states(database)) == 2


def test_an_event_is_written_once(database):
    event = {"prefix": "d", "job_id": "a", "ms": 1, "seq": 2, "type": "claimed", "fields": "{}"}
    for kind in ("claimed", "another"):
        with database.begin() as connection:
            save_events(connection, [{**event, "type": kind}, {**event, "seq": 3}])
    _, events = tables()
    with database.begin() as connection:
        found = connection.execute(select(events.c.seq, events.c.type).order_by(events.c.seq)).all()
    assert [tuple(each) for each in found] == [(2, "claimed"), (3, "claimed")]


def test_nothing_to_write_is_nothing_to_do(database):
    with database.begin() as connection:
        save_jobs(connection, [])
        save_events(connection, [])
    assert states(database) == {}
