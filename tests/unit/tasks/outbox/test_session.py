"""Of which transactions of SQLAlchemy the relays are told, and when."""

from __future__ import annotations

import asyncio
import gc

import pytest
from sqlalchemy import create_engine, event
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from denyut.errors import ConfigurationError
from denyut.tasks.outbox import session as module
from denyut.tasks.outbox.session import SessionWriter


@pytest.fixture
def engine():
    made = create_engine("sqlite://")
    yield made
    made.dispose()


@pytest.fixture
def told():
    return []


def test_a_session_tells_once_after_its_commit_however_often_it_was_used(engine, told):
    with Session(engine) as session:
        for _ in range(3):
            SessionWriter(session).after_commit(lambda: told.append(session.in_transaction()))
        assert told == []
        session.commit()
        assert len(told) == 1
        session.commit()
    assert len(told) == 1


def test_a_savepoint_is_no_commit_and_a_rollback_tells_nothing(engine, told):
    with Session(engine) as session:
        with session.begin_nested():
            SessionWriter(session).after_commit(lambda: told.append(1))
        assert told == []
        session.rollback()
        session.commit()
        assert told == []
        SessionWriter(session).after_commit(lambda: told.append(2))
        session.commit()
    assert told == [2]


def test_a_connection_tells_at_its_commit_and_not_after_a_rollback(engine, told):
    with engine.connect() as connection:
        SessionWriter(connection).after_commit(lambda: told.append(1))
        connection.rollback()
        connection.commit()
        assert told == []
        for _ in range(2):
            with connection.begin():
                SessionWriter(connection).after_commit(lambda: told.append(2))
    assert told == [2, 2]


def test_a_session_that_is_gone_is_not_remembered(engine):
    gc.collect()  # what earlier tests have left
    before = len(module._waiting)
    with Session(engine) as session:
        SessionWriter(session).after_commit(lambda: None)
        assert len(module._waiting) == before + 1
    del session
    gc.collect()
    assert len(module._waiting) == before


@pytest.mark.parametrize("bad", [None, object(), 3])
def test_what_is_no_transaction_is_refused_with_what_would_be_one(bad):
    with pytest.raises(TypeError, match="takes a Session or Connection of SQLAlchemy, or the alias"):
        SessionWriter(bad)


def test_a_database_that_can_have_no_outbox_is_named(engine):
    with engine.connect() as connection:
        connection.dialect.name = "mysql"
        with pytest.raises(ConfigurationError, match="needs postgresql or sqlite, not mysql"):
            SessionWriter(connection)


def test_other_errors_of_the_database_are_its_own(lite):
    @event.listens_for(lite.engine, "before_cursor_execute", retval=True)
    def spoil(_c, _cursor, statement, parameters, _context, _many):
        return statement.replace("INSERT", "INSRT"), parameters

    with Session(lite.engine) as session, pytest.raises(Exception, match="syntax error"):
        lite.outbox.enqueue(session, lite.note.s())


def test_an_asynchronous_session_enqueues_as_the_error_says(make_post, postgres):
    post = make_post(postgres)

    async def sell(*, commit: bool) -> None:
        engine = create_async_engine(postgres)
        async with AsyncSession(engine) as session:
            with pytest.raises(TypeError, match=r"await session.run_sync\(app.denyut.outbox.enqueue"):
                post.outbox.enqueue(session, post.note.s(1))
            await session.run_sync(post.outbox.enqueue, post.note.s(1))
            await (session.commit() if commit else session.rollback())
        await engine.dispose()

    asyncio.run(sell(commit=False))
    assert post.deliver() == []
    asyncio.run(sell(commit=True))
    assert post.client.exists(post.pulse.keys.relay_poke(post.relay.place.name))
    assert post.deliver() == [1]
