"""All jobs of all partitions, in pages, newest first."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from denyut.monitoring import listing
from denyut.monitoring.listing import find_jobs
from denyut.states import State
from denyut.wanted import Wanted


def find(desk, limit=100, cursor=None, **filters):
    ids, position, complete = find_jobs(desk.pulse, Wanted(**filters), limit=limit, cursor=cursor)
    assert complete
    return ids, position


def pages(desk, limit: int, **filters) -> list[list[str]]:
    """Turn all pages."""
    found, cursor = [], None
    while True:
        ids, cursor = find(desk, limit=limit, cursor=cursor, **filters)
        found.append(ids)
        if cursor is None:
            return found


def test_nothing_is_found_where_nothing_is(desk):
    assert find(desk) == ([], None)


def test_the_order_is_by_the_last_change_of_state_across_all_partitions(desk):
    desk.ended("ended-30", 30)
    desk.queued("queued-20", 20)
    desk.running("running-10", 10)
    desk.ended("ended-5", 5)
    desk.scheduled("due-in-60", 60)
    assert find(desk) == (["due-in-60", "ended-5", "running-10", "queued-20", "ended-30"], None)


def test_a_page_is_never_longer_than_its_limit_and_the_cursor_goes_on(desk):
    for n in range(10):
        desk.queued(f"j{n}", ago=n)
    assert pages(desk, 4) == [["j0", "j1", "j2", "j3"], ["j4", "j5", "j6", "j7"], ["j8", "j9"]]
    assert pages(desk, 10) == [[f"j{n}" for n in range(10)]]


def test_beats_between_two_pages_leave_no_running_job_out(desk):
    for n in range(6):
        desk.running(f"j{n}", ago=n)
    first, cursor = find(desk, state=State.RUNNING, limit=3)
    for n in range(6):
        desk.index("leases", f"j{n}", desk.ago(-600 - n))
    second, end = find(desk, state=State.RUNNING, limit=3, cursor=cursor)
    assert (first + second, end) == ([f"j{n}" for n in range(6)], None)


def test_jobs_of_the_same_time_are_all_found_however_small_the_page(desk):
    at = desk.now()
    for n in range(7):
        desk.record(f"j{n}", "QUEUED")
        desk.index("queued", f"j{n}", at)
    assert [job_id for page in pages(desk, 2) for job_id in page] == [f"j{n}" for n in reversed(range(7))]


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(times=st.lists(st.integers(0, 5), max_size=25), limit=st.integers(1, 8))
def test_pages_together_are_every_job_once_in_order(desk, times, limit):
    desk.client.flushall()
    for n, time in enumerate(times):
        desk.record(f"j{n}", "QUEUED")
        desk.index("queued", f"j{n}", 1000 + time)
    expected = sorted(((1000 + time, f"j{n}") for n, time in enumerate(times)), reverse=True)
    found = pages(desk, limit)
    assert [job_id for page in found for job_id in page] == [job_id for _, job_id in expected]
    assert all(len(page) == limit for page in found[:-1])


def test_filters_hold_and_do_not_shorten_pages(desk):
    for n in range(30):
        desk.ended(f"j{n:02}", ago=n, state="FAILED" if n % 5 == 0 else "COMPLETED", task=f"t{n % 2}")
    assert pages(desk, 4, state=State.FAILED) == [["j00", "j05", "j10", "j15"], ["j20", "j25"]]
    assert pages(desk, 2, state=State.FAILED, task="t1") == [["j05", "j15"], ["j25"]]
    assert pages(desk, 4, task="nobody") == [[]]


@pytest.mark.parametrize("state", list(State))
def test_every_state_is_found_where_the_scripts_keep_it(desk, state):
    desk.running("running", 1)
    desk.queued("queued", 2)
    desk.scheduled("scheduled", 3)
    desk.scheduled("retrying", 4)
    desk.record("retrying", "RETRYING")
    for ended in ("completed", "failed", "cancelled", "expired", "ignored", "rejected", "dead"):
        desk.ended(ended, 5, state=ended.upper())
    assert find(desk, state=state) == ([state.lower()], None)


def test_a_job_that_has_ended_and_still_holds_its_lease_is_listed_as_ended(desk):
    desk.running("j", 9)
    desk.record("j", "COMPLETED", finished_at=desk.ago(1))
    assert find(desk, state=State.COMPLETED) == (["j"], None)
    assert find(desk, state=State.RUNNING) == ([], None)


def test_jobs_whose_record_is_gone_are_passed_over(desk):
    for n in range(9):
        desk.ended(f"j{n}", ago=n)
        if n % 3:
            desk.client.delete(desk.pulse.keys.job(f"j{n}").record)
    assert pages(desk, 2) == [["j0", "j3"], ["j6"]]


def test_a_search_for_few_among_many_ends_and_gives_a_cursor(desk, monkeypatch):
    monkeypatch.setattr(listing, "MOST_LOOKED_AT", 10)
    for n in range(25):
        desk.ended(f"j{n:02}", ago=n, task="rare" if n == 24 else "often")
    found = pages(desk, 3, task="rare")
    assert found[-1] == ["j24"]
    assert found[:-1] == [[]] * (len(found) - 1)
    assert 1 < len(found) <= 4


def test_a_key_and_a_time_are_filters_too(desk):
    for n in range(6):
        desk.ended(f"j{n}", ago=10 * n, key=f"k{n % 2}")
    assert pages(desk, 2, key="k1") == [["j1", "j3"], ["j5"]]
    since, until = desk.ago(45), desk.ago(15)
    assert pages(desk, 2, since=since, until=until) == [["j2", "j3"], ["j4"]]
    assert pages(desk, 2, since=since, until=until, key="k1") == [["j3"]]


@pytest.mark.parametrize("cursor", ["", "x", "12", "-5:a", "1.5:a", ":a", "\u0663:a", "MTc6Yg=="])
def test_a_cursor_that_is_none_is_refused(desk, cursor):
    with pytest.raises(ValueError, match="must be the cursor of a page"):
        find(desk, cursor=cursor)
