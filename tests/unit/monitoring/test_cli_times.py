"""Times on the command line."""

from __future__ import annotations

from datetime import UTC, datetime

import click
import pytest

from denyut.monitoring.cli_times import moment, past, seconds


@pytest.mark.parametrize(
    ("text", "amount"), [("90", 90), ("90s", 90), ("1.5m", 90), ("10 min", 600), ("2H", 7200), ("1d", 86400)]
)
def test_a_length_of_time_has_a_unit(text, amount):
    assert seconds(None, None, text) == amount
    assert past(None, None, text) == -amount


def test_a_moment_without_a_zone_is_by_the_clock_on_the_wall():
    assert moment(None, None, "2026-12-24T18:00:00+01:00") == datetime(2026, 12, 24, 17, tzinfo=UTC)
    assert moment(None, None, "2026-12-24T18:00:00") == datetime(2026, 12, 24, 18).astimezone()
    assert past(None, None, "2026-12-24T18:00:00Z") == datetime(2026, 12, 24, 18, tzinfo=UTC)


@pytest.mark.parametrize(
    ("read", "text", "says"),
    [
        (seconds, "soon", "such as 90, 90s"),
        (seconds, "3 weeks", "such as 90, 90s"),
        (moment, "noon", "such as 2026-12-24"),
        (past, "yesterday", "how long ago"),
        (past, "3 weeks", "such as 90, 90s"),
    ],
)
def test_what_is_no_time_is_refused_with_examples(read, text, says):
    with pytest.raises(click.BadParameter, match=says):
        read(None, None, text)


@pytest.mark.parametrize("read", [seconds, moment, past])
def test_nothing_given_is_nothing(read):
    assert read(None, None, None) is None
