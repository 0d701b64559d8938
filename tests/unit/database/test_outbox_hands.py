"""What an operator sees of an outbox, and does with it."""

from __future__ import annotations

from sqlalchemy import select

from denyut.database.outbox import outbox
from denyut.database.outbox_hands import list_rows, purge_rows, retry_rows


def do(engine, work, *args, **options):
    with engine.begin() as connection:
        return work(connection, "p", *args, **options)


def tries(engine):
    with engine.connect() as connection:
        rows = connection.execute(select(outbox()).order_by(outbox().c.seq))
        return {row.id: (row.try_at, row.attempts) for row in rows}


def test_rows_are_listed_in_their_order_with_what_is_wrong(engine, put):
    put("a", due_in=60_000_000)
    put("b", try_at=None, attempts=5, error="why")
    put("c", prefix="other")
    first, second = do(engine, list_rows)
    assert (first.id, first.aside, first.error, first.attempts) == ("a", False, None, 0)
    assert 50 < first.due_in <= 60
    assert 0 <= first.age < 10
    assert second.as_dict() | {"age": 0} == {
        "id": "b",
        "task": "t",
        "key": None,
        "age": 0,
        "due_in": None,
        "attempts": 5,
        "aside": True,
        "error": "why",
    }
    assert [row.id for row in do(engine, list_rows, aside=True)] == ["b"]
    assert [row.id for row in do(engine, list_rows, limit=1)] == ["a"]


def test_a_retry_gives_all_tries_again_to_those_named_or_to_all_that_are_aside(engine, put):
    put("a", try_at=9 * 10**17, attempts=2)
    put("b", try_at=None, attempts=5)
    put("c", try_at=None, attempts=5, prefix="other")
    assert do(engine, retry_rows, ["a", "none"]) == 1
    assert tries(engine)["a"] == (0, 0)
    assert do(engine, retry_rows, None) == 1
    assert tries(engine) == {"a": (0, 0), "b": (0, 0), "c": (None, 5)}


def test_a_purge_deletes_those_named_or_all_that_are_aside(engine, put):
    put("a")
    put("b", try_at=None)
    put("c", try_at=None)
    put("d", try_at=None, prefix="other")
    assert do(engine, purge_rows, ["b"]) == 1
    assert do(engine, purge_rows, None) == 1
    assert list(tries(engine)) == ["a", "d"]
    assert do(engine, purge_rows, ["a"]) == 1
