"""What a beat writes for readers: telemetry, and an event for each stage."""

from __future__ import annotations

import os
from dataclasses import replace

from support import wait_until

from denyut.signals.procfs import usage

FENCE = 1_700_000_000_000_000


def test_telemetry_says_what_the_job_said(stage):
    stage.run(0, "j")
    slot = stage.block.slot(0)
    slot.unit("rows")
    slot.progress(3, 12)
    slot.stage("LOADING")
    stage.beat(lag=0.25)
    seen = stage.telemetry("j")
    assert (seen["done"], seen["total"], seen["progress"], seen["unit"]) == ("3", "12", "0.25", "rows")
    assert (seen["status"], seen["stage"], seen["attempt"], seen["fence"]) == (
        *("RUNNING", "LOADING", "1"),
        str(FENCE),
    )
    assert seen["beat_lag_ms"] == "250"
    assert float(seen["cpu_s"]) > 0
    assert 0 < float(seen["rss_mb"]) <= float(seen["rss_peak_mb"])
    assert seen["last_heartbeat"] == seen["last_progress"] == seen["last_active"]


def test_a_job_that_has_told_nothing_has_no_progress(stage):
    stage.run(0, "j")
    stage.beat()
    seen = stage.telemetry("j")
    assert (seen["done"], seen["total"], seen["progress"], seen["stage"]) == ("", "", "", "")
    assert "last_progress" not in seen
    assert seen["last_active"] == seen["last_heartbeat"]


def test_progress_without_a_total_has_no_fraction(stage):
    stage.run(0, "j")
    stage.block.slot(0).progress(7, None)
    stage.beat()
    assert (stage.telemetry("j")["done"], stage.telemetry("j")["progress"]) == ("7", "")
    stage.block.slot(0).progress(7, 0)
    stage.beat()
    assert (stage.telemetry("j")["total"], stage.telemetry("j")["progress"]) == ("0", "")


def test_a_silent_idle_job_beats_on_but_does_not_move(stage, fork):
    pid = fork(lambda: stage.begin(0, "j"))
    stage.claim("j")
    wait_until(lambda: stage.block.read(0), what="the job to begin")
    stage.beat()
    first = stage.telemetry("j")
    stage.beat()
    stage.beat()
    later = stage.telemetry("j")
    assert int(later["last_heartbeat"]) > int(first["last_heartbeat"])
    assert later["last_active"] == first["last_active"]
    assert "last_progress" not in later
    assert int(later["version"]) > int(first["version"])
    assert stage.block.read(0).pid == pid


def test_progress_and_stage_each_move_a_job(stage):
    stage.run(0, "j")
    stage.beat()
    for move in (lambda: stage.block.slot(0).progress(1, 2), lambda: stage.block.slot(0).stage("A")):
        before = stage.telemetry("j")
        move()
        stage.beat()
        after = stage.telemetry("j")
        assert after["last_progress"] == after["last_heartbeat"] != before.get("last_progress")


def test_cpu_use_alone_is_activity_without_progress(stage):
    stage.run(0, "j")
    stage.block.slot(0).progress(1, 2)
    stage.beat()
    before = stage.telemetry("j")
    spent = sum(os.times()[:2]) + 0.05
    while sum(os.times()[:2]) < spent:
        pass
    stage.beat()
    after = stage.telemetry("j")
    assert after["last_active"] == after["last_heartbeat"]
    assert after["last_progress"] == before["last_progress"]


def test_a_beat_that_comes_late_and_out_of_order_writes_nothing(stage):
    stage.run(0, "j")
    stage.block.slot(0).progress(5, 10)
    stage.beat()
    newest = stage.telemetry("j")
    stage.beater._version -= 100_000
    old = replace(stage.block.read(0), done=1.0, stage="OLD")
    call = stage.beater._call(stage.beater._parts([old], [])[0], 0.0, {old.pid: usage(old.pid)})
    call[0](stage.client, call[1], call[2])
    assert stage.telemetry("j") == newest
    assert stage.events("j") == []


def test_a_beat_of_an_older_attempt_writes_nothing(stage):
    stage.run(0, "j", fence=FENCE + 1)
    stage.beat()
    newest = stage.telemetry("j")
    stage.claim("j", fence=FENCE)
    stage.begin(0, "j", fence=FENCE)
    stage.beat()
    assert stage.telemetry("j") == newest


def test_a_new_attempt_begins_with_clean_telemetry(stage):
    stage.run(0, "j")
    stage.block.slot(0).progress(5, 10)
    stage.beat()
    stage.run(0, "j", fence=FENCE + 1)
    stage.beat()
    seen = stage.telemetry("j")
    assert (seen["fence"], seen["done"]) == (str(FENCE + 1), "")
    assert "last_progress" not in seen


def test_a_beat_does_not_say_running_of_a_job_that_has_ended(stage):
    stage.run(0, "j")
    stage.beat()
    stage.set_record("j", state="COMPLETED")
    stage.client.hset(stage.keys.job("j").telemetry, "status", "COMPLETED")
    stage.beat()
    assert stage.telemetry("j")["status"] == "COMPLETED"


def test_each_stage_becomes_one_event_however_often_it_beats(stage):
    stage.run(0, "j")
    slot = stage.block.slot(0)
    for name in ("LOADING", "LOADING", "COMPUTING", "LOADING"):
        slot.stage(name)
        stage.beat()
        stage.beat()
    assert [event["data"] for event in stage.events("j")] == ["LOADING", "COMPUTING", "LOADING"]
    assert stage.events("j")[0] == {"type": "stage", "fence": str(FENCE), "attempt": "1", "data": "LOADING"}


def test_a_stage_that_begins_the_stream_is_told_after_what_came_before(stage):
    stage.run(0, "j")
    stage.set_record(
        "j", queued_at=1_000_000, started_at=2_000_000, attempt=1, owner="w@h|ab", pid=5, enq="x"
    )
    stage.block.slot(0).stage("LOADING")
    stage.beat()
    enqueued, claimed, loading = stage.events("j")
    assert [event["type"] for event in (enqueued, claimed, loading)] == ["enqueued", "claimed", "stage"]
    assert (claimed["by"], claimed["pid"], claimed["fence"]) == ("w@h|ab", "5", str(FENCE))


def test_a_job_without_stages_has_no_events(stage):
    stage.run(0, "j")
    stage.block.slot(0).progress(1, 2)
    stage.beat()
    assert stage.client.exists(stage.keys.job("j").events) == 0


def test_the_event_stream_is_capped(stage):
    stage.run(0, "j")
    for _ in range(1500):
        stage.client.xadd(stage.keys.job("j").events, {"type": "checkpoint"})
    stage.block.slot(0).stage("A")
    stage.beat()
    assert len(stage.events("j")) < 1200


def test_telemetry_and_events_can_never_become_orphans(make_stage):
    stage = make_stage(retention=1.0, lease_ttl=5.0)
    stage.run(0, "j")
    stage.block.slot(0).stage("A")
    stage.beat()
    job = stage.keys.job("j")
    for key in (job.telemetry, job.events):
        assert 5000 < stage.client.pttl(key) <= 10_000, "longer than a lease, whatever the retention"


def test_the_stage_of_a_hostile_task_arrives_as_it_is(stage):
    stage.run(0, "j")
    stage.block.slot(0).stage('a "quoted"\n{7} €')
    stage.beat()
    assert stage.telemetry("j")["stage"] == 'a "quoted"\n{7} €'
