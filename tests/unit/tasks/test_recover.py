"""Moving one job on: only with proof, and only once."""

from __future__ import annotations

import os

import pytest
from support import DiedError

from denyut.errors import JobDead
from denyut.states import State
from denyut.tasks.recover import recover, recover_lost_child


@pytest.fixture
def dies(bench):
    """A job whose first run dies in the body."""
    runs = []

    @bench.task(name="t.dies")
    def dies():
        runs.append(1)
        if len(runs) == 1:
            raise DiedError
        return len(runs)

    def start():
        result = dies.delay()
        with pytest.raises(DiedError):
            bench.run(bench.messages()[0])
        return result

    dies.start = start
    return dies


def test_a_crashed_job_is_published_again_as_its_next_generation_and_runs(bench, dies):
    result = dies.start()
    bench.crash(result.id)
    assert recover(bench.pulse, result.id, "lapsed") == "PUBLISH"
    record = bench.record(result.id)
    assert (record.state, record.generation, record.crashes) == (State.QUEUED, 2, 1)
    bench.drain()
    assert result.get(timeout=5) == 2


def test_a_job_whose_lease_lives_is_never_touched(bench, dies):
    result = dies.start()
    for why in ("lapsed", "lost"):
        assert recover(bench.pulse, result.id, why) == "NOTHING"
    assert bench.record(result.id).state == State.RUNNING


def test_two_recoverers_publish_it_once(bench, dies):
    result = dies.start()
    bench.crash(result.id)
    assert [recover(bench.pulse, result.id, "lapsed") for _ in range(3)] == ["PUBLISH", "NOTHING", "NOTHING"]
    assert len(bench.messages()) == 1


def test_a_lost_childs_job_is_moved_on_before_its_lease_lapses(bench, dies):
    result = dies.start()
    assert recover_lost_child(bench.pulse, result.id, os.getpid(), 1) == "PUBLISH"
    assert bench.record(result.id).crashes == 1


@pytest.mark.parametrize("generation", [-1, 1])
def test_another_process_death_does_not_touch_it(bench, dies, generation):
    result = dies.start()
    assert recover_lost_child(bench.pulse, result.id, 1, generation) == "NOTHING"
    other = recover(bench.pulse, result.id, "child", owner="other", pid=os.getpid(), generation=generation)
    assert other == "NOTHING"


def test_a_child_that_died_before_its_claim_gives_the_message_back_without_a_crash(bench, dies):
    result = dies.delay()
    bench.messages()
    assert recover_lost_child(bench.pulse, result.id, 4711, 1) == "PUBLISH"
    assert bench.record(result.id).crashes == 0
    assert len(bench.messages()) == 1


def test_a_queued_job_is_published_again_only_when_its_message_is_nowhere(bench, dies):
    result = dies.delay()
    bench.messages()
    assert recover(bench.pulse, result.id, "lapsed") == "NOTHING"
    assert recover(bench.pulse, result.id, "lost") == "PUBLISH"


def test_a_message_that_a_living_worker_holds_is_not_lost(bench, dies, valkey):
    result = dies.delay()
    part = bench.pulse.keys.partition(bench.pulse.keys.partition_of(result.id))
    valkey.zadd(part.held, {result.id: 9e18})
    assert recover(bench.pulse, result.id, "lost") == "NOTHING"
    valkey.zadd(part.held, {result.id: 1})
    assert recover(bench.pulse, result.id, "lapsed") == "PUBLISH"


def test_a_job_whose_crash_budget_is_spent_is_buried_and_its_caller_told(make_bench):
    bench = make_bench(denyut_max_crashes=0)

    @bench.task(name="t.dies")
    def dies():
        raise DiedError

    @bench.task(name="t.errback")
    def errback(request, exc, traceback):
        return str(exc)

    result = dies.apply_async(link_error=errback.s())
    with pytest.raises(DiedError):
        bench.run(bench.messages()[0])
    bench.crash(result.id)
    assert recover(bench.pulse, result.id, "lapsed") == "DEAD"
    record = bench.record(result.id)
    assert (record.state, record.settled, record.crashes) == (State.DEAD, True, 1)
    with pytest.raises(JobDead):
        result.get(timeout=5)


@pytest.fixture
def unsettled(bench, monkeypatch):
    """A job with a link, whose worker died when the body had ended."""
    from denyut.tasks.attempt import Attempt

    @bench.task(name="t.noop")
    def noop(x):
        return x

    def die(self, outcome, stored=None):
        real(self, outcome, stored)
        raise DiedError

    result = noop.apply_async((1,), link=noop.si(2))
    real = Attempt._write
    with monkeypatch.context() as patch:
        patch.setattr(Attempt, "_write", die)
        with pytest.raises(DiedError):
            bench.run(bench.messages()[0])
    bench.crash(result.id)
    return result


def test_an_ended_job_whose_continuation_was_not_sent_is_published_to_be_replayed(bench, unsettled):
    assert recover(bench.pulse, unsettled.id, "lapsed") == "PUBLISH"
    bench.drain()
    assert unsettled.get(timeout=5) == 1
    assert bench.record(unsettled.id).settled


def test_two_recoverers_publish_an_ended_job_once_too(bench, unsettled):
    assert [recover(bench.pulse, unsettled.id, "lapsed") for _ in range(2)] == ["PUBLISH", "NOTHING"]
    assert len(bench.messages()) == 1


def test_the_copies_of_an_ended_job_do_not_pile_up_while_it_waits_in_a_long_queue(bench, unsettled, valkey):
    part = bench.pulse.keys.partition(bench.pulse.keys.partition_of(unsettled.id))
    waits = []
    for _ in range(4):
        assert recover(bench.pulse, unsettled.id, "lapsed") == "PUBLISH"
        seconds, micros = valkey.time()
        waits.append(round(valkey.zscore(part.leases, unsettled.id) / 1e6 - seconds - micros / 1e6))
        valkey.zadd(part.leases, {unsettled.id: 1})  # and that is over
    assert waits == [10, 20, 40, 80]


def test_a_job_without_a_record_leaves_no_trace_in_the_indexes(bench, valkey):
    part = bench.pulse.keys.partition(bench.pulse.keys.partition_of("ghost"))
    valkey.zadd(part.leases, {"ghost": 1})
    assert recover(bench.pulse, "ghost", "lapsed") == "NOTHING"
    assert valkey.zcard(part.leases) == 0


def test_a_drained_attempt_runs_again_without_a_crash(bench, dies, valkey):
    result = dies.start()
    fence = bench.record(result.id).fence
    valkey.hset(bench.pulse.keys.job(result.id).record, "draining", fence)
    bench.crash(result.id)
    assert recover(bench.pulse, result.id, "lapsed") == "PUBLISH"
    assert bench.record(result.id).crashes == 0
    assert bench.counters()["drained"] == 1
    assert "crashed" not in bench.counters()
    bench.drain()
    assert result.get(timeout=5) == 2


def test_a_process_that_its_worker_ended_is_no_crash(bench, dies):
    result = dies.start()
    assert recover_lost_child(bench.pulse, result.id, os.getpid(), 1, drained=True) == "PUBLISH"
    assert bench.record(result.id).crashes == 0


def test_a_later_attempt_of_a_drained_job_can_crash(bench, dies, valkey):
    result = dies.start()
    valkey.hset(bench.pulse.keys.job(result.id).record, "draining", 1)
    bench.crash(result.id)
    recover(bench.pulse, result.id, "lapsed")
    assert bench.record(result.id).crashes == 1


def test_a_job_that_has_every_worker_told_to_end_is_to_blame_in_the_end(bench, valkey):
    @bench.task(name="t.quits")
    def quits():
        raise DiedError

    result = quits.delay()
    record = bench.pulse.keys.job(result.id).record
    crashes = []
    for _ in range(12):
        with pytest.raises(DiedError):
            bench.run(bench.messages()[0])
        valkey.hset(record, "draining", bench.record(result.id).fence)
        bench.crash(result.id)
        recover(bench.pulse, result.id, "lapsed")
        crashes.append(bench.record(result.id).crashes)
    assert crashes == [0] * 10 + [1, 2]


def test_a_late_notice_of_a_dead_process_does_not_disturb_who_tells_how_its_job_ended(bench, dies, valkey):
    """Else error links and chords would hear of it twice."""
    from denyut.tasks.recover import RECOVER

    result = dies.start()
    keys, pid = bench.pulse.keys.script(result.id), str(bench.record(result.id).pid)
    owner = bench.record(result.id).owner
    bench.crash(result.id)
    valkey.hset(bench.pulse.keys.job(result.id).record, "crashes", 99)
    times = [10_000_000, 6_000_000, 60_000_000]
    first = RECOVER(valkey, keys, [result.id, "lapsed", "", 0, 0, 3, *times, "r", 1, "blamed"])
    assert first[0] == b"DEAD"
    late = RECOVER(valkey, keys, [result.id, "child", owner, pid, -1, 3, *times, "w", 1, ""])
    assert late[0] == b"NOTHING"
