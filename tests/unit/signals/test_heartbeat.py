from __future__ import annotations

import logging
import os
import re
import signal
import threading
import time
from itertools import pairwise

import pytest
from support import wait_until

from denyut.signals.heartbeat import Heartbeat
from denyut.signals.wake import Wake
from denyut.store import Store
from denyut.tasks.held import Held
from denyut.tasks.locks.holds import JobHold
from denyut.tasks.locks.steps import Held as Lock
from denyut.tasks.locks.steps import acquire
from denyut.tasks.node import Node

FENCE = 1_700_000_000_000_000


def hold_the_gil() -> None:
    """One C call that runs for ever: a regular expression that backtracks catastrophically."""
    re.match(r"(a+)+$", "a" * 60 + "b")


class Rig:
    """A heartbeat on a stage, with what its callbacks were told."""

    def __init__(self, stage, url: str, **about: str) -> None:
        self.stage, self.dead, self.held, self.wake = stage, [], Held(), Wake()
        self.node = Node("test@host", "b00t", os.getpid())
        self.heartbeat = Heartbeat(
            stage.settings,
            stage.keys,
            Store(lambda: url, timeout=5.0),
            stage.block,
            node=self.node,
            held=self.held,
            wake=self.wake,
            on_death=self.dead.append,
            about=about,
        )

    def next_beat(self, timeout: float = 20.0) -> None:
        """Wait until a beat that begins from now on is completed."""
        for _ in range(2):  # the one that is on now may have looked already
            self.heartbeat.completed.clear()
            assert self.heartbeat.completed.wait(timeout), "no beat was completed"

    def enter(self, index: int) -> None:
        """What a pool process does when it starts."""
        self.stage.block.slot(index).enter()
        self.wake.set()

    def worker(self) -> dict[str, str]:
        raw = self.stage.client.hgetall(self.stage.keys.worker(self.node.owner))
        return {k.decode(): v.decode() for k, v in raw.items()}


@pytest.fixture
def make_rig(make_stage, valkey_server):
    made = []

    def make(*, client=None, url=None, about=None, **settings) -> Rig:
        stage = make_stage(client, **{"lease_ttl": 0.9, **settings})
        made.append(Rig(stage, url or valkey_server.url, **(about or {})))
        return made[-1]

    yield make
    for rig in made:
        rig.heartbeat.stop()
        rig.wake.close()


def test_a_job_that_holds_the_gil_keeps_its_lease_for_many_ttls(make_rig, fork):
    rig = make_rig(lease_ttl=1.0)
    stage = rig.stage
    stage.claim("j", lease_ms=60_000)
    pid = fork(lambda: (rig.enter(0), stage.begin(0, "j"), hold_the_gil()))
    wait_until(lambda: stage.block.read(0), what="the job to begin")
    rig.heartbeat.start()
    wait_until(lambda: stage.ttl("j") <= 1000, what="the first beat")
    beats, end = rig.heartbeat.beats, time.monotonic() + 3.5
    while time.monotonic() < end:
        assert stage.client.get(stage.keys.job("j").lease) == f"{rig.node.owner}#{FENCE}".encode()
        time.sleep(0.01)  # between two looks
    assert rig.heartbeat.beats >= beats + 4
    assert stage.block.read(0).pid == pid
    assert rig.dead == []


def test_leases_outlive_a_restart_of_redis(make_rig, restartable_valkey, fork):
    with restartable_valkey.client() as client:
        rig = make_rig(client=client, url=restartable_valkey.url, lease_ttl=3.0)
        stage = rig.stage
        stage.claim("j", lease_ms=3000)
        fork(lambda: (rig.enter(0), stage.begin(0, "j"), hold_the_gil()))
        wait_until(lambda: stage.block.read(0), what="the job to begin")
        rig.heartbeat.start()
        rig.next_beat()
        restartable_valkey.kill()
        restartable_valkey.start()
        rig.next_beat()
        assert client.get(stage.keys.job("j").lease) == f"{rig.node.owner}#{FENCE}".encode()
        assert stage.block.read(0).flags == 0


def test_an_outage_is_said_once_and_its_end_too(make_rig, restartable_valkey, caplog):
    with restartable_valkey.client() as client:
        rig = make_rig(client=client, url=restartable_valkey.url)
        rig.heartbeat.start()
        rig.next_beat()
        restartable_valkey.kill()
        wait_until(lambda: rig.heartbeat._failures >= 5, what="five failed tries")
        restartable_valkey.start()
        rig.next_beat()
    messages = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert sum("trying again until it is there" in message for message in messages) == 1
    assert sum("it is back after" in message for message in messages) == 1


def test_a_server_that_hangs_costs_one_beat_and_not_the_lease(make_rig, restartable_valkey):
    with restartable_valkey.client() as client:
        rig = make_rig(client=client, url=restartable_valkey.url, lease_ttl=3.0)
        rig.stage.run(0, "j", lease_ms=3000)
        rig.heartbeat.start()
        rig.next_beat()
        restartable_valkey.pause()
        wait_until(lambda: rig.heartbeat._failures, what="a reply that does not come")
        restartable_valkey.resume()
        rig.next_beat()
        assert rig.stage.ttl("j") > 0


def test_a_killed_process_is_noticed_before_its_lease_lapses(make_rig, fork):
    rig = make_rig(lease_ttl=30.0)
    stage = rig.stage
    rig.heartbeat.start()
    rig.heartbeat.completed.wait(20)
    stage.claim("j", lease_ms=30_000)
    pid = fork(lambda: (rig.enter(3), stage.begin(3, "j"), stage.block.slot(3).stage("S")))
    wait_until(lambda: getattr(stage.block.read(3), "stage", "") == "S", what="the job to begin")
    beats = rig.heartbeat.beats
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: rig.dead, what="the death to be noticed")
    assert [(job.job_id, job.pid, job.index) for job in rig.dead] == [("j", pid, 3)]
    assert rig.heartbeat.beats == beats, "between two beats, ten seconds apart"
    assert stage.ttl("j") > 15_000
    assert list(stage.block.active()) == []


def test_a_dead_processs_lease_is_not_renewed(make_rig, fork):
    rig = make_rig()
    stage = rig.stage
    stage.claim("j", lease_ms=60_000)
    stage.client.pexpire(stage.keys.job("j").lease, 60_000)
    pid = fork(lambda: stage.begin(0, "j"))
    wait_until(lambda: stage.block.read(0), what="the job to begin")
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    rig.heartbeat.start()
    rig.next_beat()
    assert [job.job_id for job in rig.dead] == ["j"]
    assert stage.ttl("j") > 50_000, "renewed, it would have less"


def test_the_death_of_an_idle_process_is_no_news(make_rig, fork):
    rig = make_rig()
    pid = fork(lambda: rig.enter(0))
    wait_until(lambda: list(rig.stage.block.lives()), what="the process to start")
    rig.heartbeat.start()
    rig.next_beat()
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not list(rig.stage.block.lives()), what="the burial")
    assert rig.dead == []


def test_the_lost_job_of_a_live_process_is_told_and_logged_once(make_rig, caplog):
    rig = make_rig()
    rig.stage.run(0, "j")
    rig.stage.set_record("j", fence=FENCE + 1)
    rig.stage.client.delete(rig.stage.keys.job("j").lease)
    rig.heartbeat.start()
    rig.next_beat()
    assert rig.stage.block.slot(0).flags == 1
    rig.heartbeat.stop()
    assert caplog.text.count("job j: attempt 1 lost its lease") == 1


def test_a_worker_says_that_it_lives_and_signs_off(make_rig):
    rig = make_rig(about={"pool": "prefork", "concurrency": "2", "hostname": "here"})
    rig.stage.run(0, "j")
    rig.heartbeat.start()
    rig.next_beat()
    seen = rig.worker()
    assert (seen["name"], seen["pid"], seen["running"]) == ("test@host", str(os.getpid()), "1")
    assert (seen["pool"], seen["concurrency"], seen["hostname"]) == ("prefork", "2", "here")
    assert int(seen["started"]) <= int(seen["last_heartbeat"])
    assert int(seen["beat_lag_ms"]) >= 0
    key, client = rig.stage.keys.workers(), rig.stage.client
    assert client.zscore(key, rig.node.owner) >= int(seen["last_heartbeat"])
    assert 0 < client.pttl(rig.stage.keys.worker(rig.node.owner)) <= 900
    rig.next_beat()
    assert rig.worker()["started"] == seen["started"]
    rig.heartbeat.stop()
    assert rig.worker() == {}
    assert client.zcard(key) == 0


def test_a_worker_that_ended_long_ago_is_forgotten(make_rig):
    rig = make_rig()
    rig.stage.client.zadd(rig.stage.keys.workers(), {"old|1": 1})
    rig.heartbeat.start()
    rig.next_beat()
    assert rig.stage.client.zrange(rig.stage.keys.workers(), 0, -1) == [rig.node.owner.encode()]


def test_a_message_that_has_just_arrived_is_held_long_before_the_next_beat(make_rig):
    rig = make_rig(lease_ttl=300.0)
    rig.stage.set_record("q", state="QUEUED")
    rig.heartbeat.start()
    assert rig.heartbeat.completed.wait(20)
    rig.held.add("q")
    wait_until(lambda: rig.stage.deadline("q", "held"), what="the message in hand")
    assert rig.heartbeat.beats == 1


def test_messages_in_hand_for_a_whole_beat_are_told(make_rig):
    rig = make_rig(lease_ttl=0.6)
    rig.stage.set_record("q", state="QUEUED")
    rig.held.add("q")
    rig.heartbeat.start()
    wait_until(lambda: rig.stage.deadline("q", "held"), what="the message in hand")


def test_the_thread_begins_again_after_an_error_that_nobody_expected(make_rig, monkeypatch, caplog):
    rig = make_rig()
    rig.stage.run(0, "j", lease_ms=60_000)
    real, calls = rig.heartbeat._beater.beat, []

    def broken(*args, **more):
        calls.append(args)
        if len(calls) == 2:
            raise ZeroDivisionError("unexpected")
        return real(*args, **more)

    monkeypatch.setattr(rig.heartbeat._beater, "beat", broken)
    rig.heartbeat.start()
    wait_until(lambda: len(calls) >= 4, what="beats after the error")
    rig.next_beat()
    assert "it begins again" in caplog.text
    assert "ZeroDivisionError" in caplog.text


def test_beats_keep_their_schedule_and_say_how_late_they_are(make_rig, monkeypatch):
    rig = make_rig(lease_ttl=0.6)
    times, real = [], rig.heartbeat._beater.beat

    def slow(*args, **more):
        times.append(time.monotonic())
        time.sleep(0.05)  # what this beat takes
        return real(*args, **more)

    monkeypatch.setattr(rig.heartbeat._beater, "beat", slow)
    rig.heartbeat.start()
    wait_until(lambda: len(times) >= 12, what="twelve beats")
    rig.heartbeat.stop()
    # Each beat takes 50 ms of its 200: a schedule that drifts would be 550 ms late by now. One that
    # had to skip is late by whole beats, so the smallest distance is compared.
    gaps = [(after - before) for before, after in pairwise(times)]
    assert min(gaps) < 0.24


def test_a_stopped_heartbeat_can_start_again(make_rig):
    rig = make_rig()
    for _ in range(3):
        rig.heartbeat.start()
        rig.heartbeat.start()
        rig.next_beat()
        rig.heartbeat.stop()
        rig.heartbeat.stop()
    assert not any(thread.name == "denyut-heartbeat" for thread in threading.enumerate())


def test_three_hundred_forks_in_the_middle_of_beats_harm_neither_side(make_rig):
    rig = make_rig(lease_ttl=0.5)
    rig.stage.run(0, "j", lease_ms=60_000)
    rig.heartbeat.start()
    for number in range(300):
        index = 1 + number % 39
        rig.heartbeat.hurry()
        pid = os.fork()
        if pid == 0:
            try:
                rig.enter(index)
                rig.stage.begin(index, f"c{index}")
                rig.stage.block.slot(index).end()
            finally:
                os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    rig.next_beat()
    assert rig.heartbeat.beats > 100, "most forks came while one was made"
    assert rig.dead == []
    assert rig.stage.ttl("j") > 0


def test_redis_knows_of_a_job_that_is_about_to_be_ended_before_it_is(make_rig):
    rig = make_rig(lease_ttl=30.0)
    rig.stage.run(0, "j")
    rig.stage.run(1, "k", fence=FENCE + 1)
    rig.heartbeat.start()
    wait_until(lambda: rig.heartbeat.beats, what="the first beat")
    rig.heartbeat.drain("j")
    draining = [rig.stage.client.hget(rig.stage.keys.job(name).record, "draining") for name in "jk"]
    assert draining == [str(FENCE).encode(), None]


def test_a_worker_that_ends_says_so_at_once(make_rig):
    rig = make_rig(lease_ttl=30.0)
    rig.stage.run(0, "j")
    rig.heartbeat.start()
    wait_until(lambda: rig.heartbeat.beats, what="the first beat")
    rig.heartbeat.drain_all()
    wait_until(
        lambda: rig.stage.client.hget(rig.stage.keys.job("j").record, "draining"),
        timeout=5.0,
        what="long before the next beat",
    )


def test_the_locks_of_a_process_that_dies_are_free_at_once(make_rig, fork):
    rig = make_rig(lease_ttl=60.0)
    stage, at = rig.stage, rig.stage.keys.lock("a")
    stage.claim("j", lease_ms=60_000)
    options = {"ttl": 60.0, "baton": "", "waits": 0.0, "job": "j", "lease_ttl": 60.0}
    fence = acquire(stage.client, stage.keys, name="a", token="t", **options)

    def work():
        stage.begin(0, "j")
        lock = Lock("a", "t", fence, 60.0, time.monotonic(), os.getpid(), "j")
        JobHold(stage.block, stage.block.slot(0), FENCE).begin(lock)
        rig.wake.set()

    pid = fork(work)
    rig.heartbeat.start()
    wait_until(lambda: any(stage.block.read(0).locks for _ in stage.block.active()), what="the lock")
    wait_until(lambda: rig.heartbeat.beats, what="a beat")
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: stage.client.hget(at.lock, "token") is None, timeout=10, what="the release")
    assert stage.client.hget(at.lock, "fence") == str(fence).encode()
