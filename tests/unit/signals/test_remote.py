"""A heartbeat in a process of its own does what the thread does, and outlives its own death."""

from __future__ import annotations

import logging
import os
import resource
import signal
from pathlib import Path

import pytest
from support import is_running, wait_until
from unit.signals.conftest import FENCE

from denyut.signals.remote import RemoteHeartbeat
from denyut.signals.wake import Wake
from denyut.store import Store
from denyut.tasks.held import Held
from denyut.tasks.node import Node


class Rig:
    """A heartbeat process on a stage, with what its callbacks were told."""

    def __init__(self, stage, url: str) -> None:
        self.stage, self.dead, self.held, self.wake = stage, [], Held(), Wake()
        self.revived = 0
        self.heartbeat = RemoteHeartbeat(
            stage.settings,
            Store(lambda: url, timeout=5.0),
            stage.block,
            node=Node("test@host", "b00t", os.getpid()),
            held=self.held,
            wake=self.wake,
            on_death=self.dead.append,
            about={"pool": "solo"},
            revive=self._count,
        )

    def _count(self) -> None:
        self.revived += 1

    def next_beat(self) -> None:
        """Wait until a beat that begins from now on is completed."""
        for _ in range(2):
            self.heartbeat.completed.clear()
            assert self.heartbeat.completed.wait(20), "no beat was completed"


@pytest.fixture
def rig(make_stage, valkey_server):
    rig = Rig(make_stage(lease_ttl=0.9, interrupt_grace=0.2), valkey_server.url)
    yield rig
    rig.heartbeat.stop()
    rig.wake.close()


def lose(rig, job_id):
    """Another attempt has the job now."""
    rig.stage.set_record(job_id, fence=FENCE + 1)
    rig.stage.client.delete(rig.stage.keys.job(job_id).lease)


def test_it_renews_a_lease_and_writes_telemetry(rig):
    rig.stage.run(0, "j", lease_ms=900)
    rig.heartbeat.start()
    rig.next_beat()
    rig.next_beat()
    assert rig.stage.ttl("j") > 0
    assert rig.stage.telemetry("j")["status"] == "RUNNING"
    assert rig.revived >= 2


def test_the_process_is_small_and_has_neither_celery_nor_sqlalchemy(rig):
    rig.heartbeat.start()
    rig.next_beat()
    with Path(f"/proc/{rig.heartbeat.pid}/maps").open() as maps:
        loaded = maps.read()
    assert "sqlalchemy" not in loaded
    with Path(f"/proc/{rig.heartbeat.pid}/statm").open() as statm:
        resident = int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    assert resident < 45 * 2**20


def test_a_killed_process_is_started_again_before_a_lease_is_lost(rig, caplog):
    rig.stage.run(0, "j", lease_ms=900)
    rig.heartbeat.start()
    rig.next_beat()
    lease = rig.stage.client.get(rig.stage.keys.job("j").lease)
    first = rig.heartbeat.pid
    with caplog.at_level(logging.ERROR):
        os.kill(first, signal.SIGKILL)
        rig.next_beat()
    assert rig.stage.client.get(rig.stage.keys.job("j").lease) == lease
    assert rig.heartbeat.pid != first
    assert "signal 9" in caplog.text


@pytest.fixture
def many_descriptors():
    """Use up the low descriptors, as a worker with a thousand connections has."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    made = []
    while not made or made[-1] < 1100:
        made.append(os.open(os.devnull, os.O_RDONLY))
    yield
    for fd in made:
        os.close(fd)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_worker_with_more_than_a_thousand_descriptors_has_a_heartbeat(many_descriptors, rig):
    assert rig.heartbeat._poke.fd > 1024
    rig.heartbeat.start()
    rig.next_beat()
    rig.next_beat()
    rig.heartbeat.stop()


def test_a_stopped_heartbeat_signs_off_and_its_process_ends(rig):
    rig.heartbeat.start()
    rig.next_beat()
    pid, keys, owner = rig.heartbeat.pid, rig.stage.keys, "test@host|b00t"
    assert rig.stage.client.hget(keys.worker(owner), "pool") == b"solo"
    rig.heartbeat.stop()
    assert not is_running(pid)
    assert not rig.stage.client.exists(keys.worker(owner))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_for_the_whole_group_does_not_end_it(rig, number):
    rig.heartbeat.start()
    rig.next_beat()
    pid = rig.heartbeat.pid
    os.kill(pid, number)
    rig.next_beat()
    assert rig.heartbeat.pid == pid


def test_messages_in_hand_are_told_and_forgotten(rig):
    rig.stage.set_record("m", state="QUEUED")
    rig.held.add("m")
    rig.heartbeat.start()
    wait_until(lambda: rig.stage.deadline("m", "held"), what="the message to be held")
    rig.held.discard("m")
    wait_until(lambda: "m" not in rig.heartbeat._told, what="the process to be told")


def test_the_job_of_a_dead_pool_process_is_told(rig, fork):
    rig.stage.claim("j", lease_ms=60_000)

    def work():
        rig.stage.begin(0, "j")
        rig.wake.set()

    pid = fork(work)
    rig.heartbeat.start()
    wait_until(lambda: rig.stage.telemetry("j"), what="a beat with the job")
    os.kill(pid, signal.SIGKILL)
    (job,) = wait_until(lambda: rig.dead, what="the death")
    assert (job.job_id, job.pid, job.fence) == ("j", pid, FENCE)


def test_redis_knows_of_a_job_that_is_about_to_be_ended_before_it_is(rig):
    rig.stage.run(0, "j")
    rig.heartbeat.start()
    rig.next_beat()
    rig.heartbeat.drain("j")
    assert rig.stage.client.hget(rig.stage.keys.job("j").record, "draining") == str(FENCE).encode()


def test_a_worker_that_ends_says_so_also_through_a_process_that_was_started_again(rig):
    rig.stage.run(0, "j")
    rig.heartbeat.start()
    rig.heartbeat.drain_all()
    assert rig.heartbeat.draining
    draining = rig.stage.keys.job("j").record
    wait_until(lambda: rig.stage.client.hget(draining, "draining"), what="Redis to know")
    rig.stage.client.hdel(draining, "draining")
    os.kill(rig.heartbeat.pid, signal.SIGKILL)
    wait_until(lambda: rig.stage.client.hget(draining, "draining"), what="Redis to know again")


def test_what_it_logs_is_in_the_workers_log(rig, caplog):
    rig.stage.run(0, "j")
    lose(rig, "j")
    with caplog.at_level(logging.WARNING):
        rig.heartbeat.start()
        wait_until(lambda: "job j: attempt 1 lost its lease" in caplog.text, what="the warning")


def test_the_workers_own_process_is_signalled_and_not_killed(rig):
    heard = []
    before = signal.signal(signal.SIGUSR2, lambda *_: heard.append(1))
    try:
        rig.stage.run(0, "j")
        rig.stage.block.slot(0).enter_body()
        lose(rig, "j")
        rig.heartbeat.start()
        wait_until(lambda: len(heard) > 3, what="signals beyond the grace")
    finally:
        rig.stage.block.slot(0).end()
        rig.next_beat()
        signal.signal(signal.SIGUSR2, before)


def test_it_ends_with_the_worker(rig, fork, valkey_server):
    pids_read, pids_write = os.pipe()

    def work():
        other = Rig(rig.stage, valkey_server.url)
        other.heartbeat.start()
        os.write(pids_write, str(other.heartbeat.pid).encode())

    parent = fork(work)
    pid = int(os.read(pids_read, 20))
    os.close(pids_read)
    os.close(pids_write)
    os.kill(parent, signal.SIGKILL)
    wait_until(lambda: not is_running(pid), what="the process to end")
