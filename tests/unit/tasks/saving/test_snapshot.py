from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from denyut.tasks.saving.snapshot import from_text, read_snapshots, to_text


@given(st.dictionaries(st.binary(), st.binary()))
def test_every_byte_comes_back_from_text_in_ascii(fields):
    text = to_text(fields)
    assert text.isascii()
    assert "\x00" not in text
    assert from_text(text) == fields


def test_a_job_without_a_record_is_a_snapshot_without_a_row(shelves):
    [found] = read_snapshots(shelves.pulse, shelves.client, ["nobody"])
    assert (found.id, found.row, found.events, found.copied) == ("nobody", None, [], "")


def test_many_jobs_are_read_in_order_and_in_one_round_trip_or_two(shelves):
    ids = [shelves.work.delay(n % 2).id for n in range(6)]
    shelves.bench.drain()
    before = shelves.client.info("stats")["total_reads_processed"]
    found = read_snapshots(shelves.pulse, shelves.client, ids)
    assert shelves.client.info("stats")["total_reads_processed"] - before <= 3
    assert [each.id for each in found] == ids
    assert [each.row["state"] for each in found if each.row] == ["COMPLETED", "FAILED"] * 3


def test_only_entries_of_the_story_that_the_store_has_not_are_read(shelves):
    job = shelves.work.delay(bad=True)
    shelves.bench.crash(job.id)
    shelves.bench.drain()
    [first] = read_snapshots(shelves.pulse, shelves.client, [job.id])
    shelves.client.xadd(shelves.pulse.keys.job(job.id).events, {"type": "more"})
    shelves.client.hset(shelves.pulse.keys.job(job.id).record, "copied", first.copied or "0-1")
    [second] = read_snapshots(shelves.pulse, shelves.client, [job.id])
    assert [event["type"] for event in second.events] == ["more"]


def test_a_long_text_is_cut_in_a_column_and_whole_in_the_record(shelves):
    job = shelves.work.apply_async(countdown=60)
    shelves.client.hset(shelves.pulse.keys.job(job.id).record, "key", "k" * 5000)
    [found] = read_snapshots(shelves.pulse, shelves.client, [job.id])
    assert found.row is not None
    assert len(found.row["key"]) == 500
    assert from_text(found.row["record"])[b"key"] == b"k" * 5000


def test_a_row_has_the_place_of_its_job_in_lists(shelves):
    base = {"queued_at": 10, "due": 20, "started_at": 30, "finished_at": 40, "expires": 15}
    places = {"QUEUED": 20, "SCHEDULED": 15, "RETRYING": 15, "RUNNING": 30, "COMPLETED": 40, "DEAD": 40}
    for state in places:
        record = shelves.pulse.keys.job(state).record
        shelves.client.hset(record, mapping={**base, "state": state, "version": 1})
    found = read_snapshots(shelves.pulse, shelves.client, list(places))
    assert {each.id: each.row["at"] for each in found if each.row} == places
