"""Settings that do not fit what is in Redis."""

from __future__ import annotations

import pytest

from denyut.keys import Keys
from denyut.median.routing import shard_of
from denyut.monitoring.check import Level
from denyut.monitoring.check_layout import check_partitions, check_shards


@pytest.fixture
def work(make_desk):
    """Enqueue real jobs with one number of partitions, and return a desk of the same Redis with another."""

    def make(before: int, now: int):
        first = make_desk(denyut_partitions=before, denyut_prefix="same")

        @first.pulse.app.task(name="t.work", shared=False)
        def work(): ...

        for _ in range(20):
            work.delay()
        return make_desk(denyut_partitions=now, denyut_prefix="same")

    return make


def test_an_empty_redis_fits_every_setting(desk):
    assert check_partitions(desk.pulse, desk.client).level == Level.OK
    assert check_shards(desk.pulse, desk.client).level == Level.OK


def test_jobs_fit_the_setting_with_which_they_were_made(work):
    desk = work(16, 16)
    assert check_partitions(desk.pulse, desk.client).level == Level.OK


@pytest.mark.parametrize(("before", "now", "says"), [(16, 4, "is in use"), (4, 16, "is looked for in")])
def test_a_changed_number_of_partitions_fails(work, before, now, says):
    desk = work(before, now)
    found = check_partitions(desk.pulse, desk.client)
    assert found.level == Level.FAIL
    assert f"denyut_partitions{'=' if now > before else ' is '}{now}" in found.message
    assert says in found.message


@pytest.mark.parametrize(("before", "now"), [(16, 4), (4, 16)])
def test_a_changed_number_of_shards_fails(make_desk, before, now):
    made = make_desk(denyut_median_shards=before, denyut_prefix="same")
    for n in range(30):
        stream = f"s{n}"
        made.client.sadd(Keys("same", 16).shard_streams(shard_of(stream, before)), stream)
    assert check_shards(made.pulse, made.client).level == Level.OK
    desk = make_desk(denyut_median_shards=now, denyut_prefix="same")
    found = check_shards(desk.pulse, desk.client)
    assert found.level == Level.FAIL
    assert f"denyut_median_shards={now}" in found.message
