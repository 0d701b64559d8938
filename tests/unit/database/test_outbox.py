"""The table, and the clock that its times are of."""

from __future__ import annotations

from time import time

import pytest
from sqlalchemy import MetaData, select, text
from sqlalchemy.exc import DBAPIError

from denyut.database.outbox import find_missing, is_missing, metadata, now_us, outbox
from denyut.database.tables import metadata as store


def test_what_is_missing_is_named_and_what_is_more_is_no_fault(bare):
    assert find_missing(bare) == ["denyut_outbox"]
    metadata().create_all(bare)
    assert find_missing(bare) == []
    with bare.begin() as connection:
        connection.execute(text("ALTER TABLE denyut_outbox ADD COLUMN later TEXT"))
        connection.execute(text("ALTER TABLE denyut_outbox DROP COLUMN error"))
    assert find_missing(bare) == ["denyut_outbox.error"]


def test_it_is_no_table_of_the_job_store_whose_schema_has_another_owner():
    assert not set(metadata().tables) & set(store().tables)
    mine = MetaData()
    outbox().to_metadata(mine)
    assert list(mine.tables) == ["denyut_outbox"]


def test_the_clock_is_in_microseconds_and_goes_on_in_a_transaction(engine):
    with engine.begin() as connection:
        first = connection.execute(select(now_us())).scalar_one()
        again = connection.execute(select(now_us())).scalar_one()
        while again == first:  # SQLite's has milliseconds
            again = connection.execute(select(now_us())).scalar_one()
    assert again > first
    assert abs(first / 1e6 - time()) < 5


def test_a_missing_table_is_told_from_other_troubles(bare):
    for statement, missing in (("SELECT * FROM denyut_outbox", True), ("SELECT * FROM others", False)):
        with bare.connect() as connection, pytest.raises(DBAPIError) as caught:
            connection.execute(text(statement))
        assert is_missing(caught.value) is missing
    metadata().create_all(bare)
    with bare.connect() as connection, pytest.raises(DBAPIError) as caught:
        connection.execute(text("INSERT INTO denyut_outbox (seq) VALUES (1)"))
    assert not is_missing(caught.value), "a column without a value is another trouble"
