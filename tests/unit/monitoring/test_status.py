"""One atomic read of everything that is known of a job."""

from __future__ import annotations

import json

from denyut.monitoring.status import read_statuses
from denyut.states import Verdict


def read(desk, job_id: str):
    return read_statuses(desk.pulse, [job_id])[0]


def test_a_running_job_is_shown_with_its_record_telemetry_and_lease(desk):
    desk.record("j", "RUNNING", crashes=1, attempt=2, error=json.dumps(["ValueError", "no"]))
    desk.telemetry("j", stage="LOADING", done="1", total="4", progress="0.25")
    desk.lease("j")
    status = read(desk, "j")
    assert (status.id, status.state, status.verdict) == ("j", "RUNNING", Verdict.RUNNING)
    assert (status.progress, status.stage, status.attempt, status.crashes) == (0.25, "LOADING", 2, 1)
    assert status.error == ("ValueError", "no")
    assert status.lease == "w@host|ab#7"
    assert 0 < status.lease_ttl_ms <= 5000
    assert status.alive
    assert not status.terminal
    assert not status.result_available
    assert status.poll_after_ms == 5000
    assert 99 < status.age_s < 130


def test_a_completed_job_has_all_its_progress_and_a_result(desk):
    desk.ended("j", 3.0)
    desk.telemetry("j", progress="0.97")
    status = read(desk, "j")
    assert (status.progress, status.terminal, status.result_available) == (1.0, True, True)
    assert (status.lease, status.lease_ttl_ms, status.alive, status.poll_after_ms) == (None, 0, False, 0)


def test_telemetry_of_an_earlier_attempt_says_nothing_of_this_one(desk):
    desk.record("j", "RUNNING", fence=8, started_at=desk.now())
    desk.telemetry("j", stage="OLD", beat=50, active=50)
    desk.lease("j")
    status = read(desk, "j")
    assert (status.telemetry, status.stage, status.verdict) == (None, "", Verdict.RUNNING)


def test_a_job_ended_from_outside_keeps_the_telemetry_of_its_last_attempt(desk):
    desk.record("j", "CANCELLED", fence=99, finished_at=desk.now())
    desk.telemetry("j", stage="LAST")
    assert read(desk, "j").stage == "LAST"


def test_an_unknown_job_has_a_status_too(desk):
    status = read(desk, "nobody")
    assert (status.verdict, status.record, status.telemetry, status.state) == (
        Verdict.UNKNOWN,
        None,
        None,
        None,
    )
    assert (status.progress, status.stage, status.attempt, status.crashes) == (None, "", 0, 0)
    assert (status.error, status.age_s, status.result_available) == (None, None, False)


def test_the_marker_tells_a_redis_that_was_used_from_one_that_was_not(desk):
    assert read(desk, "j").marked_us is None
    desk.client.set(desk.pulse.keys.partition(desk.pulse.keys.partition_of("j")).marker, 123)
    assert read(desk, "j").marked_us == 123


def test_many_statuses_come_in_their_order_and_together(desk):
    ids = [f"j{n}" for n in range(40)]
    for job_id in ids[::2]:
        desk.record(job_id, "QUEUED")
    read_statuses(desk.pulse, ids)  # loads the script
    before = desk.client.info("stats")["total_reads_processed"]
    found = read_statuses(desk.pulse, ids)
    reads = desk.client.info("stats")["total_reads_processed"] - before
    assert [status.id for status in found] == ids
    assert [status.state for status in found] == ["QUEUED", None] * 20
    assert reads < len(ids) / 2, "one round trip, which the server may read in some parts"


def test_a_status_is_plain_data_for_json(desk):
    desk.running("j", 10, checkpoint=json.dumps({"at": 3}), key="order:1")
    desk.telemetry("j", stage="LOADING")
    data = json.loads(json.dumps(read(desk, "j").as_dict()))
    assert (data["verdict"], data["state"], data["stage"]) == ("running", "RUNNING", "LOADING")
    assert (data["record"]["checkpoint"], data["record"]["key"]) == ({"at": 3}, "order:1")
    assert data["telemetry"]["last_heartbeat"] < data["now_us"]


def test_undecodable_bytes_in_a_record_are_shown_and_never_raised(desk):
    desk.record("j", "QUEUED", owner=b"\xff\xfe")
    assert read(desk, "j").record.owner == "\ufffd\ufffd"
