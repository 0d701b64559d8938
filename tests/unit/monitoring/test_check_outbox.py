"""The doctor's look at the outboxes."""

from __future__ import annotations

import pytest
from sqlalchemy import create_engine

from denyut.database.outbox import metadata, outbox
from denyut.database.outbox_put import put_statement
from denyut.monitoring.check import Level
from denyut.monitoring.check_outbox import check_outbox
from denyut.tasks.outbox.places import places


@pytest.fixture
def made(make_desk, tmp_path):
    desk = make_desk(denyut_outbox_url=f"sqlite:///{tmp_path}/app.db")
    desk.engine = create_engine(f"sqlite:///{tmp_path}/app.db")
    yield desk
    desk.engine.dispose()


def put(desk, **changed):
    values = {"prefix": desk.pulse.settings.prefix, "id": "j", "task": "t", "key": None, "message": "{}"}
    with desk.engine.begin() as connection:
        connection.execute(put_statement(), {**values, "due_in": None})
        connection.execute(outbox().update().values(**changed)) if changed else None


def relay(desk):
    desk.client.set(desk.pulse.keys.relay_watch(places(desk.pulse)[0].name), "w", px=60_000)


def found(desk):
    return check_outbox(desk.pulse, desk.client)


def test_without_an_outbox_there_is_nothing_to_say(desk):
    assert found(desk).level == Level.OK


def test_a_missing_table_breaks_a_promise(made):
    assert found(made).level == Level.FAIL
    assert "lacks denyut_outbox" in found(made).message


def test_with_a_table_and_a_relay_all_is_well(made):
    metadata().create_all(made.engine)
    relay(made)
    put(made)
    assert found(made).level == Level.OK
    assert "1 job(s) wait in sqlite:///" in found(made).message


def test_without_a_relay_it_warns(made):
    metadata().create_all(made.engine)
    assert found(made).level == Level.WARN
    assert "no worker relays them" in found(made).message


def test_what_waits_for_long_or_is_aside_is_a_warning(made):
    metadata().create_all(made.engine)
    relay(made)
    put(made, try_at=None)
    assert "1 are set aside" in found(made).message
    put(made, created=0, try_at=0)
    assert found(made).level == Level.WARN
    assert "Redis away?" in found(made).hint


def test_the_worst_of_several_is_told_without_its_password(make_desk, tmp_path):
    urls = [f"sqlite:///{tmp_path}/app.db", "postgresql+psycopg://me:s3cret@127.0.0.1:1/app"]
    desk = make_desk(denyut_outbox_url=urls)
    engine = create_engine(urls[0])
    metadata().create_all(engine)
    engine.dispose()
    assert found(desk).level == Level.FAIL
    assert "me:***@127.0.0.1:1/app cannot be read" in found(desk).message
    assert "s3cret" not in found(desk).message
