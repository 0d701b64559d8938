"""Lists of jobs that Redis has, and of those that only the job store still has: one order, each once."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete

from denyut.database.save import save_jobs
from denyut.database.tables import tables
from denyut.monitoring.listing import find_jobs
from denyut.states import State
from denyut.tasks.saving.snapshot import read_snapshots
from denyut.wanted import Wanted


class Shelf:
    """A desk with a job store. A job may be in Redis, in the store, or in both."""

    def __init__(self, desk: Any) -> None:
        self.desk = desk
        self.pulse = desk.pulse
        self.pulse.database.create()

    def save(self, *job_ids: str) -> None:
        """Let the store have jobs as Redis has them now."""
        rows = [each.row for each in read_snapshots(self.pulse, self.desk.client, job_ids)]
        with self.pulse.database.begin() as connection:
            save_jobs(connection, [row for row in rows if row])

    def forget(self, *job_ids: str) -> None:
        """Let Redis forget jobs as it does when their retention is over."""
        for job_id in job_ids:
            keys = self.pulse.keys.job(job_id)
            self.desk.client.delete(keys.record, keys.lease)
            part = self.pulse.keys.partition(keys.partition)
            for index in (part.done, part.queued, part.schedule, part.leases):
                self.desk.client.zrem(index, job_id)

    def clear(self) -> None:
        self.desk.client.flushall()
        with self.pulse.database.begin() as connection:
            connection.execute(delete(tables()[0]))

    def pages(self, limit: int, between=lambda: None, **filters) -> list[str]:
        """Turn all pages; what is given to do between two of them is done once."""
        found, cursor = [], None
        while True:
            page = find_jobs(self.pulse, Wanted(**filters), limit=limit, cursor=cursor)
            assert page.complete
            found += page.ids
            if (cursor := page.cursor) is None:
                return found
            between()
            between = lambda: None  # noqa: E731


@pytest.fixture
def shelf(make_desk, tmp_path):
    return Shelf(make_desk(denyut_database_url=f"sqlite:///{tmp_path}/jobs.db"))


def test_what_only_the_store_has_stands_where_it_stood_in_redis(shelf):
    desk = shelf.desk
    desk.ended("ended-30", 30)
    desk.queued("queued-20", 20)
    desk.ended("ended-10", 10)
    desk.running("running-5", 5)
    before = shelf.pages(10)
    shelf.save(*before)
    shelf.forget("ended-30", "ended-10")
    assert shelf.pages(10) == shelf.pages(1) == before == ["running-5", "ended-10", "queued-20", "ended-30"]


def test_a_job_that_the_store_has_as_it_was_is_listed_as_it_is(shelf):
    shelf.desk.queued("j", 50)
    shelf.save("j")
    shelf.forget("j")
    shelf.desk.ended("j", 2, state="FAILED")
    shelf.desk.ended("k", 20)
    assert shelf.pages(1) == ["j", "k"]
    assert shelf.pages(1, state=State.FAILED) == ["j"]
    assert shelf.pages(1, state=State.QUEUED) == []


def test_a_job_that_no_index_of_redis_has_any_more_is_still_listed_while_it_has_a_record(shelf):
    """The index of what has ended is trimmed by denyut_retention; a task may keep its jobs for longer."""
    shelf.desk.ended("j", 2)
    shelf.save("j")
    part = shelf.pulse.keys.partition(shelf.pulse.keys.partition_of("j"))
    shelf.desk.client.zrem(part.done, "j")
    assert shelf.pages(1) == ["j"]


def test_statuses_of_both_have_one_shape(shelf):
    for name in ("a", "b"):
        shelf.desk.ended(name, 2, state="FAILED", error='["ValueError", "bad"]', key="k")
    shelf.save("b")
    shelf.forget("b")
    page = shelf.pulse.jobs.list(key="k", since=-60, until=0)
    assert sorted(job.id for job in page.jobs) == ["a", "b"]
    assert {(job.verdict, job.error, job.record.task) for job in page.jobs} == {
        ("failed", ("ValueError", "bad"), "t.work")
    }


def test_while_the_store_is_down_a_page_says_that_some_may_be_missing(shelf, cli_of):
    shelf.desk.ended("here", 1)
    shelf.desk.ended("gone", 2)
    shelf.save("gone")
    shelf.forget("gone")
    shelf.pulse.saving.breaker.failed(OSError("away"))
    page = shelf.pulse.jobs.list()
    assert ([job.id for job in page.jobs], page.complete) == (["here"], False)
    assert "the job store could not be asked" in cli_of("jobs", "list").stderr


@pytest.fixture
def cli_of(shelf, invoke):
    return lambda *args: invoke(shelf.pulse.app, *args)


def test_the_command_line_fills_its_page_from_both_and_has_every_filter(shelf, cli_of):
    for n in range(4):
        shelf.desk.ended(f"j{n}", 10 * n, state="FAILED" if n != 1 else "COMPLETED", key="k")
    shelf.save("j0", "j1", "j2", "j3")
    shelf.forget("j2", "j3")
    args = ("--state", "failed", "--task", "t.work", "--key", "k", "--since", "25s", "--until", "0s")
    rows = cli_of("jobs", "list", *args).stdout.splitlines()[1:]
    assert [row.split()[0] for row in rows] == ["j0", "j2"]


KINDS = ("redis", "both", "store", "forgotten")
MADE = st.lists(st.tuples(st.integers(1, 4), st.sampled_from(KINDS), st.booleans()), max_size=14)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(made=MADE, later=st.integers(0, 3), limit=st.integers(1, 5), failed=st.booleans())
def test_pages_are_every_job_once_in_one_order_also_if_redis_forgets_some_between_them(
    shelf, made, later, limit, failed
):
    """``forgotten`` is in both until the first page was read; newer jobs come then, too."""
    shelf.clear()
    desk, base, expected = shelf.desk, shelf.desk.ago(1000), []
    for n, (at, kind, is_failed) in enumerate(made):
        job_id, time, state = f"j{n}", base + at, "FAILED" if is_failed else "COMPLETED"
        desk.record(job_id, state, finished_at=time, settled=1)
        desk.index("done", job_id, time)
        if kind != "redis":
            shelf.save(job_id)
        if kind == "store":
            shelf.forget(job_id)
        if is_failed or not failed:
            expected.append((time, job_id))
    leaving = [f"j{n}" for n, (_, kind, _) in enumerate(made) if kind == "forgotten"]

    def between():
        shelf.forget(*leaving)
        for n in range(later):
            desk.ended(f"new{n}", n)

    found = shelf.pages(limit, between, **({"state": State.FAILED} if failed else {}))
    assert found == [job_id for _, job_id in sorted(expected, reverse=True)]
