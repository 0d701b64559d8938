"""The scheduler: one watches, the others stand by, and what is due goes out in time."""

from __future__ import annotations

import time

import pytest
from support import wait_until

from denyut.states import State
from denyut.tasks.node import Node
from denyut.tasks.schedule import Schedule


def nothing():
    return None


@pytest.fixture
def task(bench):
    @bench.task(name="t.later")
    def later(*args):
        return args

    return later


@pytest.fixture
def as_worker(monkeypatch):
    """Let the next steps be those of the worker of this name."""

    def become(name):
        monkeypatch.setattr("denyut.tasks.schedule.current_node", lambda: Node(name, "boot", 1))

    return become


@pytest.fixture
def start():
    started = []

    def make(pulse):
        started.append(Schedule(pulse))
        started[-1].start()
        return started[-1]

    yield make
    for each in started:
        each.stop()


def lateness(bench, job_id):
    """Seconds from when the job was due to its message, as the message says."""
    (message,) = bench.messages()
    assert message.headers["id"] == job_id
    return (message.headers["denyut"]["at"] - bench.record(job_id).due) / 1e6


@pytest.mark.parametrize("delay", [0.02, 0.1, 0.35])
def test_a_job_goes_out_within_a_quarter_of_a_second_of_its_time(bench, task, start, delay):
    schedule = start(bench.pulse)
    wait_until(lambda: schedule.looks, what="the first look")
    job = task.apply_async(countdown=delay)
    wait_until(lambda: bench.record(job.id).state == State.QUEUED, what="the job to be due")
    wait_until(lambda: bench.pulse.store.client.llen(bench.app.conf.task_default_queue), what="its message")
    assert 0 <= lateness(bench, job.id) < 0.25


def test_a_job_that_is_known_goes_out_at_its_very_time(bench, task):
    schedule = Schedule(bench.pulse)
    schedule._every = 3600.0
    task.apply_async(countdown=600)
    assert 0 < schedule.step() <= 600


def test_only_one_watches_and_the_others_stand_by_until_it_is_silent(bench, as_worker):
    first, second = Schedule(bench.pulse), Schedule(bench.pulse)
    as_worker("a")
    assert first.step() == pytest.approx(0.1)
    as_worker("b")
    assert 0 < second.step() <= 0.25
    assert (first.watching, second.watching, second.looks) == (True, False, 0)
    wait_until(lambda: second.step() and second.watching, what="the second to take over")
    as_worker("a")
    first.step()
    assert not first.watching


def test_all_that_is_due_goes_out_however_much_it_is(bench, task):
    client = bench.pulse.store.client
    ids = [task.apply_async(countdown=3600).id for _ in range(600)]
    for job_id in ids:
        client.hset(bench.pulse.keys.job(job_id).record, "due", 1)
        client.zadd(bench.pulse.keys.partition(bench.pulse.keys.partition_of(job_id)).schedule, {job_id: 1})
    schedule, pauses = Schedule(bench.pulse), []
    while any(client.zcard(part.schedule) for part in bench.pulse.keys.all_partitions()):
        pauses.append(schedule.step())
    assert set(pauses) == {0.0}
    assert len(bench.messages()) == 600


def test_many_partitions_are_looked_at_less_often_but_often_enough(make_bench):
    assert Schedule(make_bench(denyut_partitions=1024).pulse).step() == pytest.approx(0.2)


def test_the_thread_survives_a_restart_of_redis_and_says_so_once(
    restartable_valkey, make_bench, start, caplog
):
    url = restartable_valkey.url
    bench = make_bench(broker_url=url, result_backend=url, denyut_redis_timeout=0.5)
    task = bench.task(name="t.later")(nothing)
    schedule = start(bench.pulse)
    wait_until(lambda: schedule.looks, what="the first look")
    job = task.apply_async(countdown=3)
    restartable_valkey.kill()
    wait_until(lambda: "schedule:" in caplog.text, timeout=20, what="a word about the trouble")
    restartable_valkey.start()
    wait_until(lambda: bench.record(job.id).state == State.QUEUED, timeout=30, what="the job to be due")
    assert caplog.text.count("trying again") <= 2


def test_what_was_due_while_nobody_was_up_goes_out_at_the_first_look(bench, task):
    job = task.apply_async(countdown=0.01)
    time.sleep(0.05)  # nobody is up
    Schedule(bench.pulse).step()
    assert bench.record(job.id).state == State.QUEUED
