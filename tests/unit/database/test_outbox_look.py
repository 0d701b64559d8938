"""What waits is counted, up to a limit, by the database's own clock."""

from __future__ import annotations

from denyut.database import outbox_look
from denyut.database.outbox_look import read_backlog


def look(engine):
    with engine.begin() as connection:
        return read_backlog(connection, "p")


def test_an_empty_outbox_has_no_backlog(engine):
    found = look(engine)
    assert (found.waiting, found.oldest_s, found.aside) == (0, 0.0, 0)


def test_waiting_and_aside_are_counted_apart_and_the_oldest_that_waits_tells_the_age(
    engine, put, monkeypatch
):
    put("a", created=0, try_at=None)
    put("b", prefix="other", created=0)
    put("c")
    put("d", try_at=9 * 10**17)
    found = look(engine)
    assert (found.waiting, found.aside) == (2, 1)
    assert 0 <= found.oldest_s < 10
    monkeypatch.setattr(outbox_look, "MOST", 1)
    assert look(engine).waiting == 1
