"""Text for people."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from denyut.monitoring.text import age, clean, columns, json_text, time_text

NOW = 1_700_000_000_000_000


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (3.2, "3.2 s ago"),
        (0, "0.0 s ago"),
        (59.94, "59.9 s ago"),
        (90, "1.5 min ago"),
        (5400, "1.5 h ago"),
        (200_000, "2.3 d ago"),
        (-300, "in 5.0 min"),
    ],
)
def test_an_age_is_told_in_the_unit_that_fits(seconds, text):
    assert age(round(NOW - seconds * 1e6), NOW) == text


def test_what_has_not_happened_has_no_age():
    assert age(None, NOW) == ""


def test_columns_are_aligned_and_what_is_missing_is_a_dash():
    assert columns([("a", 1, None), ("long one", "", "x")], ("NAME", "N", "WHAT")).splitlines() == [
        "NAME      N  WHAT",
        "a         1  -",
        "long one  -  x",
    ]
    assert columns([("only", "rows")]) == "only  rows"


@given(st.text())
def test_nothing_that_a_terminal_would_obey_comes_through(text):
    assert clean(text).isprintable()
    assert len(clean(text)) == len(text)


def test_a_line_end_is_a_space():
    assert clean("two\nlines \x1b[31m") == "two lines \ufffd[31m"


def test_json_has_times_as_iso_8601():
    data = {"at": datetime(2026, 1, 2, 3, 4, tzinfo=UTC), "n": 1.5}
    assert json.loads(json_text(data)) == {"at": "2026-01-02T03:04:00+00:00", "n": 1.5}
    assert "\n" not in json_text(data, indent=None)


def test_a_time_is_shown_in_utc_to_the_millisecond():
    assert time_text(1_700_000_000_123_999) == "2023-11-14 22:13:20.123Z"
