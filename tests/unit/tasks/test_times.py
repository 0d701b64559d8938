"""Times as people write them: seconds from now, whatever zone, whatever clock change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from celery import Celery

from denyut.tasks.times import as_given, finite, iso_in, seconds_until

BERLIN = ZoneInfo("Europe/Berlin")
NEW_YORK = ZoneInfo("America/New_York")


@pytest.fixture
def app():
    app = Celery("times", set_as_current=False)
    app.conf.timezone = "Europe/Berlin"
    yield app
    app.close()


@pytest.fixture
def at(monkeypatch):
    """Let it be this moment."""

    def be(moment):
        monkeypatch.setattr("denyut.tasks.times._now", lambda: moment.astimezone(UTC))

    return be


def test_a_number_is_seconds_from_now(app):
    assert seconds_until(app, 90) == 90
    assert seconds_until(app, -1.5) == -1.5


@pytest.mark.parametrize("zone", [UTC, BERLIN, NEW_YORK])
def test_an_aware_time_is_that_moment_in_whatever_zone(app, at, zone):
    now = datetime(2026, 1, 1, 12, tzinfo=UTC)
    at(now)
    then = (now + timedelta(hours=2)).astimezone(zone)
    assert seconds_until(app, then) == seconds_until(app, then.isoformat()) == 7200


def test_a_time_without_a_zone_is_in_utc_as_celery_takes_it(app, at):
    at(datetime(2026, 1, 1, 12, tzinfo=UTC))
    assert seconds_until(app, datetime(2026, 1, 1, 14)) == 7200  # noqa: DTZ001 - the zone is the point
    assert seconds_until(app, "2026-01-01T14:00:00") == 7200


@pytest.mark.parametrize(
    ("now", "then", "hours"),
    [
        (datetime(2026, 3, 29, 1, tzinfo=BERLIN), datetime(2026, 3, 29, 4, tzinfo=BERLIN), 2),
        (datetime(2026, 10, 25, 1, tzinfo=BERLIN), datetime(2026, 10, 25, 4, tzinfo=BERLIN), 4),
        (datetime(2026, 10, 25, 2, tzinfo=BERLIN), datetime(2026, 10, 25, 2, fold=1, tzinfo=BERLIN), 1),
    ],
    ids=["spring: an hour is missing", "autumn: an hour comes twice", "autumn: the second of them"],
)
def test_a_change_of_the_clock_on_the_way_is_counted(app, at, now, then, hours):
    at(now)
    assert seconds_until(app, then) == hours * 3600


def test_a_time_that_has_passed_is_negative_and_one_far_away_is_exact(app, at):
    now = datetime(2026, 1, 1, tzinfo=UTC)
    at(now)
    assert seconds_until(app, datetime(1970, 1, 1, tzinfo=UTC)) < 0
    assert seconds_until(app, now + timedelta(days=36500)) == 36500 * 86400


@pytest.mark.parametrize("bad", ["tomorrow", "", None, object(), float("inf"), float("nan")])
def test_what_is_no_time_is_refused_by_name(app, bad):
    with pytest.raises(ValueError, match=r"^expires=.*: must be "):
        seconds_until(app, bad, "expires")


@pytest.mark.parametrize("bad", ["5", None, float("inf")])
def test_what_is_no_number_of_seconds_is_refused_by_name(bad):
    with pytest.raises(ValueError, match=r"^countdown=.*: must be a finite number of seconds"):
        finite(bad, "countdown")


def test_seconds_from_now_as_text_are_in_utc_also_across_a_change_of_the_clock(at):
    at(datetime(2026, 3, 29, 1, tzinfo=BERLIN))
    assert datetime.fromisoformat(iso_in(7200)) == datetime(2026, 3, 29, 2, tzinfo=UTC)


def test_what_python_has_no_date_for_is_refused():
    with pytest.raises(ValueError, match="countdown=1e\\+300: must end before the year 10000"):
        iso_in(1e300)


def test_a_time_is_told_as_it_was_given(app):
    when = datetime(2030, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    assert as_given(app, when) == "2030-01-02T03:04:05.678901+00:00"
    assert as_given(app, when.replace(tzinfo=None)).startswith("2030-01-02T")
    assert as_given(app, "2030-01-02T03:04:05Z") == "2030-01-02T03:04:05Z"
