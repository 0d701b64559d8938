"""Reading the audit."""

from __future__ import annotations

import pytest

from denyut.errors import ConfigurationError, StoreUnavailable
from denyut.monitoring.audit import read_entries
from denyut.tasks.saving.audit import audited


@pytest.fixture
def stored(make_desk, tmp_path):
    pulse = make_desk(denyut_database_url=f"sqlite:///{tmp_path}/jobs.db").pulse
    pulse.database.create()
    return pulse


def test_pages_go_on_at_their_cursor_to_the_end(stored):
    for n in range(5):
        with audited(stored, "cancel", job_id=f"j{n % 2}", by=f"p{n}"):
            pass
    found, cursor = [], None
    while True:
        page = read_entries(stored, limit=2, cursor=cursor)
        found += [entry.actor for entry in page.entries]
        if (cursor := page.cursor) is None:
            break
    assert found == ["p4", "p3", "p2", "p1", "p0"]
    assert [entry.actor for entry in read_entries(stored, job_id="j1").entries] == ["p3", "p1"]


def test_what_the_store_has_missed_is_in_it_as_soon_as_somebody_reads(stored):
    stored.saving.breaker.failed(OSError("away"))
    with audited(stored, "cancel", job_id="j"):
        pass
    with pytest.raises(StoreUnavailable, match="OSError: away"):
        read_entries(stored)
    stored.saving.breaker.worked()
    assert [entry.job_id for entry in read_entries(stored).entries] == ["j"]


def test_without_a_store_it_says_what_to_set(desk):
    with pytest.raises(ConfigurationError, match="denyut_database_url is not set"):
        read_entries(desk.pulse)
