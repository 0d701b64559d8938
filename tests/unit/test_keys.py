from __future__ import annotations

import re
from dataclasses import astuple, fields
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import denyut
from denyut.config import Settings
from denyut.keys import JobKeys, Keys, PartitionKeys, StreamKeys
from denyut.scripts import slot_tag

WORDS = st.sampled_from(["alive", "telemetry", "events", "lock", "job", "key", "-", "x", "leases", "{1}", ""])
IDS = st.one_of(st.text(min_size=1), st.lists(WORDS, min_size=1, max_size=4).map(":".join).filter(bool))


def names(group: object) -> list[str]:
    return [value for value in astuple(group) if isinstance(value, str)]


@pytest.mark.parametrize("kind", [JobKeys, PartitionKeys, StreamKeys])
def test_every_key_of_a_group_is_a_text_beside_one_number(kind):
    assert [spec.type for spec in fields(kind)].count("int") == 1
    assert {spec.type for spec in fields(kind)} == {"int", "str"}


@given(IDS)
def test_all_keys_of_a_job_and_of_its_partition_share_one_hash_tag(job_id):
    keys = Keys("denyut", 16)
    job = keys.job(job_id)
    together = [*names(job), *names(keys.partition(job.partition))]
    assert slot_tag(together) == str(job.partition)
    assert len(set(together)) == len(together)


@given(IDS, IDS, st.integers(1, 3))
@example("alive:x", "x", 1)
@example(":alive:x", "alive:x", 1)
@example("telemetry:events:x", "events:x", 1)
def test_no_two_jobs_have_a_key_in_common(one, other, partitions):
    keys = Keys("denyut", partitions)
    if one != other:
        assert not set(names(keys.job(one))) & set(names(keys.job(other)))


@given(IDS, st.text("0123456789abcdef", min_size=40, max_size=40))
def test_no_key_of_a_job_is_a_key_of_something_else(job_id, digest):
    keys = Keys("denyut", 2)
    others = [keys.idempotency(digest), keys.workers(), keys.worker(job_id)]
    for partition in keys.all_partitions():
        others += names(partition)
    for shard in range(2):
        others += [*names(keys.stream(job_id, shard)), keys.shard_streams(shard), keys.shard_counters(shard)]
    assert len(set(others)) == len(others)
    assert not set(names(keys.job(job_id))) & set(others)


@given(st.text(min_size=1), st.text(min_size=1))
def test_no_two_streams_have_a_key_in_common(one, other):
    keys = Keys()
    if one != other:
        assert not set(names(keys.stream(one, 0))) & set(names(keys.stream(other, 0)))


@given(IDS, st.text("0123456789abcdef", min_size=40, max_size=40), st.integers(1, 40))
def test_the_keys_of_a_script_are_fourteen_in_one_slot_with_the_entry_of_the_idempotency_key(
    job_id, digest, partitions
):
    keys = Keys("denyut", partitions)
    script = keys.script(job_id, digest)
    assert len(set(script)) == 14
    assert slot_tag(script) == str(keys.partition_of(job_id))
    if keys.partition_of(digest) == keys.partition_of(job_id):
        assert script[12] == keys.idempotency(digest)
    else:
        assert script[12] == keys.script(job_id)[12] != keys.idempotency(digest)


def test_the_names_are_the_documented_ones():
    keys = Keys("denyut", 1)
    assert keys.job("ID") == JobKeys(
        0,
        "denyut:{0}:job:ID",
        "denyut:{0}:lock:job:ID",
        "denyut:{0}:job:alive:ID",
        "denyut:{0}:job:telemetry:ID",
        "denyut:{0}:job:events:ID",
    )
    assert keys.idempotency("D") == "denyut:{0}:key:D"
    assert keys.stream("S", 3).lower == "denyut:{m3}:median:S:lower"
    assert keys.shard_streams(3) == "denyut:{m3}:streams"
    assert keys.shard_counters(3) == "denyut:{m3}:counters"


@given(IDS, st.integers(1, 1024))
def test_an_id_is_always_in_the_same_partition_of_those_there_are(job_id, partitions):
    keys = Keys("denyut", partitions)
    assert 0 <= keys.partition_of(job_id) < partitions
    assert (
        keys.partition_of(job_id)
        == Keys("other", partitions).partition_of(job_id)
        == keys.job(job_id).partition
    )


def test_with_a_job_store_a_fifteenth_key_of_a_script_is_the_outbox():
    keys = Keys.of(Settings(database_url="sqlite:///jobs.db"))
    script = keys.script("j")
    assert len(script) == 15
    assert script[14] == keys.partition(keys.partition_of("j")).outbox
    assert keys.script("j")[:14] == Keys.of(Settings()).script("j")


def test_processes_make_their_keys_of_all_settings():
    for path in Path(denyut.__file__).parent.rglob("*.py"):
        made = re.findall(r"\bKeys\([^)]*\)", path.read_text())
        assert not made or path.name == "check_layout.py", f"{path.name} forgets what is not named: {made}"


def test_partitions_are_used_evenly():
    keys = Keys("denyut", 16)
    counts = [0] * 16
    for number in range(16_000):
        counts[keys.partition_of(f"id-{number}")] += 1
    assert min(counts) > 800


def test_two_deployments_have_no_key_in_common():
    assert not set(names(Keys("a").job("x"))) & set(names(Keys("b").job("x")))


def test_the_watch_of_the_schedules_shares_its_slot_with_the_workers():
    keys = Keys("denyut")
    assert keys.schedule_watch() == "denyut:{w}:schedule"
    assert slot_tag([keys.schedule_watch(), keys.workers()]) == "w"


@given(IDS)
def test_the_id_of_a_job_can_be_read_from_the_name_of_its_record_and_from_no_other(job_id):
    keys = Keys("denyut")
    job = keys.job(job_id)
    assert keys.id_of_record(job.record) == job_id
    assert {keys.id_of_record(name) for name in (job.lease, job.alive, job.telemetry, job.events)} == {None}
