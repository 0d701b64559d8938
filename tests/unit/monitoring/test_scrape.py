"""What one scrape reads."""

from __future__ import annotations

import pytest

from denyut.monitoring.scrape import scrape

SHARDS = 2


@pytest.fixture
def desk(make_desk):
    return make_desk(denyut_median_shards=SHARDS, denyut_lease_ttl=6.0)


def test_an_empty_store_is_read_as_zeros(desk):
    found = scrape(desk.pulse, desk.client)
    assert len(found.partitions) == desk.pulse.settings.partitions
    assert (found.started, found.workers, found.shards) == ([], [], [({}, 0)] * SHARDS)
    assert (found.counters, found.queues) == ({}, set())


def test_counters_are_summed_over_partitions_and_times_among_them_are_not(desk):
    for number in (0, 3):
        counters = {"claimed:t": 2, "claimed:u:v": 1, "passed_us:fast": desk.now()}
        desk.client.hset(desk.pulse.keys.partition(number).counters, mapping=counters)
    found = scrape(desk.pulse, desk.client)
    assert found.counters == {"claimed:t": 4, "claimed:u:v": 2}
    assert found.queues == {"fast"}


def test_the_start_of_each_job_with_a_lease_is_read(desk):
    desk.running("a", 10)
    desk.running("b", 5)
    desk.index("leases", "without a record", desk.now())
    (older, newer) = sorted(scrape(desk.pulse, desk.client).started)
    assert newer - older == pytest.approx(5e6, abs=1e6)


def test_the_counters_and_streams_of_each_shard_are_read(desk):
    desk.client.hset(desk.pulse.keys.shard_counters(1), mapping={"batches": 2, "accepted": 30})
    desk.client.sadd(desk.pulse.keys.shard_streams(1), "a", "b")
    assert scrape(desk.pulse, desk.client).shards == [({}, 0), ({"batches": 2, "accepted": 30}, 2)]


def test_a_scrape_takes_a_few_round_trips_however_many_jobs_there_are(desk):
    for n in range(30):
        desk.running(f"j{n}", n)
    scrape(desk.pulse, desk.client)  # loads the script
    before = desk.client.info("stats")["total_reads_processed"]
    scrape(desk.pulse, desk.client)
    assert desk.client.info("stats")["total_reads_processed"] - before <= 10, (
        "five, but a trip may come in parts"
    )
