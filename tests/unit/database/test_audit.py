"""The audit in SQL."""

from __future__ import annotations

import pytest

from denyut.database.audit import UNKNOWN, prune_audit, read_audit, save_audit


@pytest.fixture
def database(empty):
    empty.create()
    return empty


def row(entry_id: str, at: int = 1, **fields) -> dict:
    given = {
        "prefix": "d",
        "id": entry_id,
        "at": at,
        "actor": "me",
        "host": "h",
        "pid": 1,
        "action": "cancel",
    }
    rest = {"job_id": "j", "state_before": None, "state_after": None, "outcome": "done", "reason": ""}
    return {**given, **rest, "more": "{}", **fields}


def ids(database, **which) -> list[str]:
    with database.begin() as connection:
        return [each["id"] for each in read_audit(connection, "d", **which)]


def save(database, *rows) -> None:
    with database.begin() as connection:
        save_audit(connection, rows)


def test_it_is_read_newest_first_in_pages_of_all_or_of_one_job(database):
    save(database, row("a", 1), row("b", 2, job_id="k"), row("c", 2), row("d", 3), row("e", 9, prefix="x"))
    assert ids(database) == ["d", "c", "b", "a"]
    assert ids(database, before=(2, "c"), limit=1) == ["b"]
    assert ids(database, job_id="j") == ["d", "c", "a"]


def test_an_entry_is_written_once_but_for_one_whose_end_was_not_known(database):
    save(database)
    save(database, row("a", outcome=UNKNOWN), row("b", outcome="done"))
    save(database, row("a", outcome="requested"), row("b", outcome=UNKNOWN))
    save(database, row("a", outcome=UNKNOWN))
    with database.begin() as connection:
        found = {each["id"]: each["outcome"] for each in read_audit(connection, "d")}
    assert found == {"a": "requested", "b": "done"}


def test_what_is_over_its_time_goes_oldest_first(database):
    save(database, *[row(f"e{n}", n) for n in range(5)], row("x", 0, prefix="x"))
    with database.begin() as connection:
        assert prune_audit(connection, "d", 3, limit=2) == 2
    assert ids(database) == ["e4", "e3", "e2"]
    with database.begin() as connection:
        assert prune_audit(connection, "d", 3) == 1
        assert prune_audit(connection, "d", 3) == 0
        assert len(read_audit(connection, "x")) == 1
