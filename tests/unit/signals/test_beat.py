from __future__ import annotations

import subprocess
import sys
from collections import defaultdict

import pytest
from redis import Redis
from redis.exceptions import OutOfMemoryError

from denyut.scripts import slot_tag
from denyut.tasks.slots import CANCEL, LOST
from denyut.tasks.told import _number

FENCE = 1_700_000_000_000_000


def ids(jobs) -> list[str]:
    return sorted(job.job_id for job in jobs)


def test_a_beat_renews_the_lease_and_says_that_the_job_lives(stage):
    stage.run(0, "j", lease_ms=500)
    done = stage.beat()
    assert ids(done.jobs) == ["j"]
    assert (done.lost, done.cancelled, done.errors) == ([], [], [])
    assert stage.ttl("j") > 5000
    assert stage.client.get(stage.keys.job("j").alive) == str(FENCE).encode()
    assert stage.client.pttl(stage.keys.job("j").alive) > 5000
    seconds, micros = stage.client.time()
    assert abs(stage.deadline("j") - (seconds * 1e6 + micros + 6e6)) < 1e6


def test_a_beat_does_not_touch_a_job_that_runs_elsewhere(stage):
    stage.claim("j", lease_ms=500)
    stage.beat()
    assert 0 < stage.ttl("j") <= 500


def test_another_owners_lease_is_refused_and_the_job_is_told(stage):
    stage.run(0, "j", lease_ms=500)
    stage.client.set(stage.keys.job("j").lease, f"other#{FENCE + 5}", px=500)
    stage.set_record("j", fence=FENCE + 5, owner="other")
    done = stage.beat()
    assert ids(done.lost) == ["j"]
    assert stage.ttl("j") <= 500
    assert stage.block.slot(0).flags == LOST
    assert stage.telemetry("j") == {}
    assert stage.deadline("j") is None


def test_a_lost_lease_is_news_once(stage):
    stage.run(0, "j", fence=FENCE)
    stage.set_record("j", fence=FENCE + 1)
    stage.client.delete(stage.keys.job("j").lease)
    assert ids(stage.beat().lost) == ["j"]
    assert ids(stage.beat().lost) == []


def test_the_loser_of_two_attempts_in_one_worker_is_told_and_the_winner_is_renewed(stage):
    stage.begin(0, "j", fence=FENCE, attempt=1)
    stage.run(1, "j", fence=FENCE + 1, lease_ms=500)
    done = stage.beat()
    assert [job.fence for job in done.lost] == [FENCE]
    assert (stage.block.slot(0).flags, stage.block.slot(1).flags) == (LOST, 0)
    assert stage.ttl("j") > 5000
    assert stage.telemetry("j")["fence"] == str(FENCE + 1)


def test_a_lease_that_lapsed_with_nobody_taking_over_is_taken_again(stage):
    stage.run(0, "j")
    stage.client.delete(stage.keys.job("j").lease)
    assert stage.beat().lost == []
    assert stage.client.get(stage.keys.job("j").lease) == f"test@host|b00t#{FENCE}".encode()
    assert stage.ttl("j") > 5000


@pytest.mark.parametrize("state", ["COMPLETED", "FAILED"])
def test_the_lease_is_kept_while_the_continuation_is_sent(stage, state):
    stage.run(0, "j", lease_ms=500)
    stage.set_record("j", state=state)
    stage.beat()
    assert stage.ttl("j") > 5000
    stage.client.delete(stage.keys.job("j").lease)
    assert stage.beat().lost == []
    assert stage.ttl("j") > 5000


@pytest.mark.parametrize(
    "fields",
    [
        {"state": "COMPLETED", "settled": "1"},
        {"state": "FAILED", "settled": "1"},
        {"state": "RETRYING"},
        {"state": "SCHEDULED"},
        {"state": "QUEUED"},
        {"state": "QUEUED", "crashed_at": FENCE - 1},
    ],
)
def test_an_attempt_that_has_ended_by_itself_is_not_lost_and_gets_no_lease_again(stage, fields):
    stage.run(0, "j")
    stage.set_record("j", **fields)
    stage.client.delete(stage.keys.job("j").lease)
    assert stage.beat().lost == []
    assert stage.ttl("j") < 0
    assert stage.deadline("j") is None


def test_an_attempt_that_was_taken_for_crashed_is_lost(stage):
    stage.run(0, "j")
    stage.set_record("j", state="QUEUED", crashed_at=FENCE + 10)
    stage.client.delete(stage.keys.job("j").lease)
    assert ids(stage.beat().lost) == ["j"]
    assert stage.ttl("j") < 0


def test_a_cancelled_job_is_told_once_and_keeps_its_lease(stage):
    stage.run(0, "j", cancel="1")
    done = stage.beat()
    assert ids(done.cancelled) == ["j"]
    assert stage.block.slot(0).flags == CANCEL
    assert stage.ttl("j") > 5000
    assert stage.beat().cancelled == []


def test_twelve_hundred_jobs_of_one_partition_go_out_in_chunks_of_one_slot(make_stage):
    stage = make_stage(partitions=1)
    for number in range(1200):
        stage.run(number, f"j{number}", lease_ms=60_000)
    stage.set_record("j700", fence=FENCE + 1)
    stage.client.delete(stage.keys.job("j700").lease)
    stage.set_record("j1100", cancel="1")
    parts = stage.beater._parts(stage.beater.jobs(), [f"h{n}" for n in range(700)])
    assert [(len(part.jobs), len(part.held)) for part in parts] == [(500, 500), (500, 200), (200, 0)]
    done = stage.beat()
    assert (len(done.jobs), ids(done.lost), ids(done.cancelled)) == (1200, ["j700"], ["j1100"])
    assert stage.client.zcard(stage.keys.partition(0).leases) == 1199


def test_all_keys_of_a_call_share_one_hash_tag(stage):
    for number in range(40):
        stage.begin(number, f"j{number}")
    parts = stage.beater._parts(stage.beater.jobs(), [f"h{n}" for n in range(40)])
    assert sum(len(part.jobs) for part in parts) == 40
    for part in parts:
        _, names, _ = stage.beater._call(part, 0.0, defaultdict(lambda: None))
        assert slot_tag(names) == str(part.partition)


def test_messages_in_hand_keep_their_place_only_while_they_are_queued(stage):
    for job_id, state in (("q", "QUEUED"), ("r", "RUNNING"), ("d", "COMPLETED")):
        stage.set_record(job_id, state=state)
    stage.run(0, "mine")
    stage.beat(held=["q", "r", "d", "unknown", "mine"])
    assert stage.deadline("q", "held") > 0
    for job_id in ("r", "d", "unknown", "mine"):
        assert stage.deadline(job_id, "held") is None


def test_a_holders_deadline_is_never_taken_back(stage):
    stage.set_record("q", state="QUEUED")
    part = stage.keys.partition(stage.keys.partition_of("q"))
    stage.client.zadd(part.held, {"q": 9e15})
    stage.beat(held=["q"])
    assert stage.deadline("q", "held") == 9e15


def test_one_jobs_broken_key_costs_no_other_job_its_lease(make_stage):
    stage = make_stage(partitions=1)
    for number in range(5):
        stage.run(number, f"j{number}", lease_ms=500)
    stage.client.set(stage.keys.job("j2").telemetry, "not a hash")
    done = stage.beat()
    assert [(job.job_id, "WRONGTYPE" in why) for job, why in done.errors] == [("j2", True)]
    assert all(stage.ttl(f"j{number}") > 5000 for number in range(5))


def test_a_full_server_still_renews_leases(make_stage, valkey):
    stage = make_stage()
    stage.run(0, "j")
    stage.run(1, "lapsed")
    stage.beat()
    stage.client.pexpire(stage.keys.job("j").lease, 2000)
    stage.client.delete(stage.keys.job("lapsed").lease)
    stage.block.slot(0).stage("x")
    valkey.config_set("maxmemory", "1")
    try:
        with pytest.raises(OutOfMemoryError):
            stage.client.set("more", "memory")
        done = stage.beat()
    finally:
        valkey.config_set("maxmemory", "0")
    assert stage.ttl("j") > 5000
    assert stage.telemetry("j")["stage"] == "x"
    assert [(job.job_id, "OOM" in why) for job, why in done.errors] == [("lapsed", True)]


def test_a_slot_that_cannot_be_read_now_is_renewed_as_it_was_last(stage):
    stage.run(0, "j", lease_ms=500)
    stage.beater.jobs()
    stage.block.slot(0)._words[2] += 1
    assert ids(stage.beat().jobs) == ["j"]
    assert stage.ttl("j") > 5000


def test_a_beat_is_one_round_trip(stage, monkeypatch):
    for number in range(50):
        stage.run(number, f"j{number}")
    stage.beat(held=["a", "b"])
    sent = []
    real = Redis.pipeline
    monkeypatch.setattr(Redis, "pipeline", lambda *a, **k: sent.append(1) or real(*a, **k))
    monkeypatch.setattr(Redis, "execute_command", lambda *_, **__: pytest.fail("a trip of its own"))
    stage.beat(held=["a", "b"])
    assert sent == [1]


def test_numbers_are_written_exactly():
    assert [_number(x) for x in (0.0, 3.0, 0.1, 1e300, 2.0**53, -1.5)] == [
        *("0", "3", "0.1", str(int(1e300)), str(2**53), "-1.5")
    ]
    assert [_number(x) for x in (None, float("inf"), float("-inf"))] == ["", "", ""]


def test_the_beat_imports_neither_celery_nor_sqlalchemy():
    code = "import sys, denyut.signals.heartbeat; print({'celery', 'sqlalchemy'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "set()"


def test_a_beat_says_which_jobs_the_worker_is_ending(stage):
    stage.run(0, "j")
    stage.run(1, "k", fence=FENCE + 1)
    stage.beater.beat(stage.client, stage.beater.jobs(), draining=lambda job: job.job_id == "j")
    draining = [stage.client.hget(stage.keys.job(name).record, "draining") for name in "jk"]
    assert draining == [str(FENCE).encode(), None]


def test_a_beat_takes_a_job_again_whose_record_redis_has_lost(stage):
    stage.run(0, "j")
    stage.beat()
    stage.client.flushall()
    done = stage.beat()
    assert done.lost == []
    assert stage.ttl("j") > 5000


def test_a_beat_takes_a_job_again_whose_claim_was_rolled_back(stage):
    stage.run(0, "j")
    stage.set_record("j", state="QUEUED", fence=FENCE - 5, attempt=0)
    stage.client.set(stage.keys.job("j").lease, f"before#{FENCE - 5}")
    done = stage.beat()
    assert done.lost == []
    record = stage.client.hgetall(stage.keys.job("j").record)
    assert (record[b"state"], record[b"fence"]) == (b"RUNNING", str(FENCE).encode())
    assert stage.ttl("j") > 5000


def test_a_worker_that_was_silent_for_longer_than_a_lease_has_lost_a_job_without_a_record(stage):
    stage.run(0, "j")
    stage.beat()
    stage.beater._answered -= 60
    stage.client.flushall()
    assert ids(stage.beat().lost) == ["j"]
