"""A row as the one statement writes it, whoever runs it."""

from __future__ import annotations

from sqlalchemy import select

from denyut.database.outbox import outbox
from denyut.database.outbox_put import put_text


def test_rows_are_numbered_in_order_and_timed_by_the_database(engine, put):
    put("a")
    put("b", due_in=5_000_000)
    with engine.connect() as connection:
        first, second = connection.execute(select(outbox()).order_by(outbox().c.seq)).all()
    assert (first.id, second.id) == ("a", "b")
    assert first.seq < second.seq
    assert (first.attempts, first.try_at, first.error, first.due) == (0, 0, None, None)
    assert abs(second.due - second.created - 5_000_000) < 5_000


def test_a_number_is_not_given_again_when_its_row_is_gone(engine, put):
    put("a")
    with engine.begin() as connection:
        connection.execute(outbox().delete())
    put("b")
    with engine.connect() as connection:
        assert connection.execute(select(outbox().c.seq)).scalar_one() == 2


def test_the_same_statement_as_text_for_a_cursor(engine):
    values = {"prefix": "p", "id": "a'%s", "task": "t", "key": "k", "message": "{}", "due_in": 7}
    statement, given = put_text(engine.dialect.name, values)
    if engine.dialect.name == "sqlite":
        statement = statement.replace("%s", "?")  # as Django does
    raw = engine.raw_connection()
    raw.cursor().execute(statement, given)
    raw.commit()
    raw.close()
    with engine.connect() as connection:
        row = connection.execute(select(outbox())).one()
    assert (row.prefix, row.id, row.task, row.key, row.message, row.attempts, row.try_at) == (
        *("p", "a'%s", "t", "k", "{}", 0, 0),
    )
    assert row.due - row.created == 7 or engine.dialect.name == "postgresql"
