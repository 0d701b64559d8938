"""The table is made, or brought up to this version, once, whoever asks for it."""

from __future__ import annotations

from threading import Thread

from sqlalchemy import inspect, select, text

from denyut.database.outbox import find_missing, outbox
from denyut.database.outbox_make import make_outbox
from denyut.database.outbox_take import take


def test_an_empty_database_gets_the_table_and_a_second_time_changes_nothing(bare):
    for _ in range(2):
        make_outbox(bare)
        assert find_missing(bare) == []
        assert [index["name"] for index in inspect(bare).get_indexes("denyut_outbox")] == [
            "ix_denyut_outbox_try"
        ]


def test_many_at_once_make_it_together(bare):
    failed = []

    def make() -> None:
        try:
            make_outbox(bare)
        except Exception as exc:  # noqa: BLE001 - whatever it is, the test fails with it
            failed.append(exc)

    threads = [Thread(target=make) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert find_missing(bare) == []


def test_what_an_older_version_did_not_have_is_added_and_rows_stay(engine, put):
    put("a")
    with engine.begin() as connection:
        connection.execute(text("DROP INDEX ix_denyut_outbox_try"))
        for name in ("error", "due"):
            connection.execute(text(f"ALTER TABLE denyut_outbox DROP COLUMN {name}"))
    make_outbox(engine)
    assert find_missing(engine) == []
    assert len(inspect(engine).get_indexes("denyut_outbox")) == 1
    with engine.begin() as connection:
        assert [row.id for row in take(connection, "p", 5)] == ["a"]


def test_what_a_newer_version_has_added_is_left_alone(engine, put):
    with engine.begin() as connection:
        connection.execute(text("ALTER TABLE denyut_outbox ADD COLUMN later TEXT"))
    make_outbox(engine)
    put("a")
    with engine.connect() as connection:
        assert connection.execute(select(outbox().c.id)).scalars().all() == ["a"]
        assert connection.execute(text("SELECT later FROM denyut_outbox")).scalar_one() is None


def test_every_column_after_the_first_version_may_be_null():
    """So that an older version can write rows of a newer table; these are the first version's."""
    first = {"seq", "prefix", "id", "task", "message", "created", "attempts"}
    assert {column.name for column in outbox().columns if not column.nullable} == first
