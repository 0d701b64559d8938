"""Which rows a relay gets, in which order, and what becomes of them."""

from __future__ import annotations

from threading import Event, Thread

from sqlalchemy import select, text

from denyut.database.outbox import outbox
from denyut.database.outbox_take import drop, put_aside, put_off, take


def taken(engine, limit=10, prefix="p"):
    with engine.begin() as connection:
        return [row.id for row in take(connection, prefix, limit)]


def rows(engine):
    with engine.connect() as connection:
        return connection.execute(select(outbox()).order_by(outbox().c.seq)).all()


def test_rows_come_in_the_order_of_their_enqueue_and_those_that_failed_after_the_others(engine, put):
    for name in "abcd":
        put(name)
    with engine.begin() as connection:
        put_off(connection, rows(engine)[0].seq, "why", 0.0)
    assert taken(engine) == ["b", "c", "d", "a"]
    assert taken(engine, limit=2) == ["b", "c"]


def test_a_deployment_sees_its_own_rows_only(engine, put):
    put("a", prefix="p")
    put("b", prefix="q")
    assert (taken(engine), taken(engine, prefix="q")) == (["a"], ["b"])


def test_what_is_put_off_or_aside_is_not_taken_and_says_why(engine, put):
    put("a")
    put("b")
    one, two = rows(engine)
    with engine.begin() as connection:
        put_off(connection, one.seq, "later", 60.0)
        put_aside(connection, two.seq, "never")
    assert taken(engine) == []
    one, two = rows(engine)
    assert (one.attempts, one.error, two.attempts, two.error, two.try_at) == (1, "later", 1, "never", None)
    assert abs(one.try_at - one.created - 60_000_000) < 5_000_000


def test_what_is_dropped_is_gone(engine, put):
    put("a")
    put("b")
    with engine.begin() as connection:
        drop(connection, [row.seq for row in take(connection, "p", 1)])
        drop(connection, [])
    assert [row.id for row in rows(engine)] == ["b"]


def test_times_are_told_as_seconds_from_now(engine, put):
    put("a", due_in=60_000_000, created=0)
    put("b", due_in=-60_000_000)
    put("c")
    with engine.begin() as connection:
        first, second, third = take(connection, "p", 3)
    assert 55 < first.due_in <= 60
    assert first.age > 10**9
    assert (second.due_in, third.due_in) == (0.0, None)
    assert 0 <= third.age < 5


def test_on_postgresql_what_one_relay_has_in_hand_is_skipped_by_the_others(engine, put):
    if engine.dialect.name == "sqlite":
        return  # there it is the relays' lease
    for name in "abcd":
        put(name)
    holds, done = Event(), Event()

    def hold() -> None:
        with engine.begin() as connection:
            take(connection, "p", 2)
            holds.set()
            done.wait(10)

    thread = Thread(target=hold)
    thread.start()
    assert holds.wait(10)
    assert taken(engine) == ["c", "d"], "and nobody waits"
    done.set()
    thread.join()
    assert taken(engine) == ["a", "b", "c", "d"]


def test_on_postgresql_a_relay_that_stands_still_loses_its_rows(engine, put):
    if engine.dialect.name == "sqlite":
        return
    with engine.begin() as connection:
        take(connection, "p", 1)
        found = connection.execute(text("SHOW idle_in_transaction_session_timeout")).scalar_one()
    assert found == "10s"


def test_on_postgresql_the_question_is_answered_by_the_index_however_many_are_set_aside(engine):
    if engine.dialect.name == "sqlite":
        return
    with engine.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO denyut_outbox (prefix, id, task, message, created, attempts, try_at) "
                "SELECT 'p', n::text, 't', 'm', 0, 5, NULL FROM generate_series(1, 20000) n"
            )
        )
        connection.execute(text("ANALYZE denyut_outbox"))
        c = outbox().c
        now = select(
            text("CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)")
        ).scalar_subquery()
        query = select(c.seq).where(c.prefix == "p", c.try_at <= now).order_by(c.try_at, c.seq).limit(200)
        compiled = query.compile(connection, compile_kwargs={"literal_binds": True})
        plan = "\n".join(connection.execute(text(f"EXPLAIN (ANALYZE) {compiled}")).scalars())
    assert "ix_denyut_outbox_try" in plan
    assert "Rows Removed by Filter" not in plan
