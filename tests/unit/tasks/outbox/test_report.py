"""What the relays tell of an outbox, and what anybody can read of it."""

from __future__ import annotations

import logging

import pytest

from denyut.database.outbox_look import Backlog
from denyut.tasks.outbox.report import Report, read_told


def report(post, secret=None):
    return Report(post.pulse, post.relay.place, secret)


def told(post):
    [found] = read_told(post.pulse, post.client)
    return found


def test_nothing_is_known_before_a_relay_has_looked(lite, pulse):
    found = told(lite)
    assert (found.waiting, found.oldest_s, found.counted_s, found.error, found.error_s) == (
        0,
        0.0,
        None,
        "",
        None,
    )
    assert found.shown.startswith("sqlite:///")
    assert read_told(pulse(), lite.client) == []


def test_what_was_counted_grows_older_until_it_is_counted_again(lite):
    report(lite).counted(Backlog(waiting=3, oldest_s=2.0, aside=1))
    found = told(lite)
    assert (found.waiting, found.aside) == (3, 1)
    assert 2.0 <= found.oldest_s < 10
    assert found.oldest_s == pytest.approx(2.0 + found.counted_s)
    report(lite).counted(Backlog(waiting=0, oldest_s=0.0, aside=0))
    assert told(lite).oldest_s == 0.0


def test_a_trouble_is_one_line_when_it_begins_and_one_when_it_is_over_without_the_password(lite, caplog):
    said = report(lite, "hush")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            said.failed(OSError("cannot reach u:hush@h\nmore"))
        assert [record.levelname for record in caplog.records] == ["ERROR"]
        found = told(lite)
        assert (found.error, found.failures) == ("OSError: cannot reach u:***@h", 3)
        assert found.error_s is not None
        said.worked(2, 1)
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]
    found = told(lite)
    assert (found.error, found.error_s, found.sent, found.refused) == ("", None, 2, 1)


def test_a_missing_table_is_told_with_how_to_make_it(lite):
    report(lite).failed(RuntimeError("no such table: denyut_outbox"))
    assert "celery -A APP denyut outbox migrate" in told(lite).error


def test_what_cannot_be_told_is_left(pulse, lite):
    away = pulse(url="redis://127.0.0.1:1/0", denyut_outbox_url="sqlite:///x", denyut_redis_timeout=0.1)
    Report(away, lite.relay.place, None).failed(OSError("down"))
