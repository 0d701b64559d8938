"""Jobs that shared a dead worker run again one at a time."""

from __future__ import annotations

import pytest
from support import DiedError, wait_until

from denyut.scripts import run_all
from denyut.states import State
from denyut.tasks.node import new_node
from denyut.tasks.recovery import Recovery
from denyut.tasks.suspects import ask


@pytest.fixture
def dies(bench):
    """A task whose first runs die, as many as it is told."""
    left = {}

    @bench.task(name="t.dies", bind=True)
    def dies(self, deaths):
        left.setdefault(self.request.id, deaths)
        left[self.request.id] -= 1
        if left[self.request.id] >= 0:
            raise DiedError
        return self.request.id

    return dies


def host_dies(bench, *tasks_and_args, before=1):
    """Run jobs on a worker of their own, all at once, until it dies; return their results.

    ``before``: how many deaths they have shared before.
    """
    new_node("dying@host")
    results = [task.delay(*args) for task, args in tasks_and_args]
    for message in bench.messages():
        with pytest.raises(DiedError):
            bench.run(message)
    for result in results:
        bench.crash(result.id)
        if before:
            bench.pulse.store.client.hset(bench.pulse.keys.job(result.id).record, "suspect", before)
    new_node("next@host")
    return results


def test_after_the_first_shared_death_all_run_again_at_once(bench, dies):
    results = host_dies(bench, *[(dies, (1,))] * 3, before=0)
    Recovery(bench.pulse).step()
    assert bench.drain() == 3
    assert [r.get(timeout=5) for r in results] == [r.id for r in results]
    assert [bench.record(r.id).crashes for r in results] == [0, 0, 0]


def test_they_wait_for_each_other_and_none_has_a_crash_counted(bench, dies):
    results = host_dies(bench, *[(dies, (1,))] * 3)
    recovery = Recovery(bench.pulse)
    for done in range(3):
        recovery.step()
        [message] = bench.messages()
        recovery.step()
        assert bench.messages() == [], "the others wait while it is queued"
        bench.run(message)
        ended = [bench.record(r.id).state == State.COMPLETED for r in results]
        assert ended.count(True) == done + 1
    assert [r.get(timeout=5) for r in results] == [r.id for r in results]
    assert [bench.record(r.id).crashes for r in results] == [0, 0, 0]
    assert {bench.record(r.id).attempt for r in results} == {2}
    recovery.step()
    assert bench.pulse.store.client.exists(bench.pulse.keys.turn()) == 0


def test_the_one_that_kills_every_worker_is_dead_after_its_budget_and_the_others_complete(make_bench):
    bench = make_bench(denyut_max_crashes=1)
    runs = []

    @bench.task(name="t.kills")
    def kills():
        raise DiedError

    @bench.task(name="t.shares", bind=True)
    def shares(self):
        runs.append(self.request.id)
        if runs.count(self.request.id) == 1:
            raise DiedError
        return "done"

    killer, *innocents = host_dies(bench, (kills, ()), (shares, ()), (shares, ()))
    recovery = Recovery(bench.pulse)
    for number in range(20):
        recovery.step()
        new_node(f"worker{number}@host")
        for message in bench.messages():
            try:
                bench.run(message)
            except DiedError:
                bench.crash(message.headers["id"])
                new_node(f"after{number}@host")
    record = bench.record(killer.id)
    assert (record.state, record.crashes, record.attempt) == (State.DEAD, 2, 3)
    assert [r.get(timeout=5) for r in innocents] == ["done", "done"]
    assert [bench.record(r.id).crashes for r in innocents] == [0, 0]


def test_a_turn_that_takes_too_long_does_not_keep_the_next_from_running(make_bench, valkey):
    bench = make_bench(denyut_suspect_turn=1.0)

    @bench.task(name="t.dies")
    def dies():
        raise DiedError

    host_dies(bench, (dies, ()), (dies, ()))
    recovery = Recovery(bench.pulse)
    recovery.step()
    assert len(bench.messages()) == 1, "nobody runs it"
    valkey.pexpire(bench.pulse.keys.turn(), 1)
    while valkey.exists(bench.pulse.keys.turn()):
        pass
    recovery.step()
    assert len(bench.messages()) == 1


def test_a_recoverer_that_dies_between_the_turn_and_the_message_holds_nobody_up(bench, dies):
    host_dies(bench, (dies, (1,)), (dies, (1,)))
    recovery = Recovery(bench.pulse)
    recovery.step()
    assert len(bench.messages()) == 1
    # Another line-up, of which the turn is given and never published.
    host_dies(bench, (dies, (1,)), (dies, (1,)))
    bench.pulse.store.client.delete(bench.pulse.keys.turn())
    recovery.step()
    bench.messages()
    bench.pulse.store.client.delete(bench.pulse.keys.turn())
    [(_, begun)] = run_all(bench.pulse.store.client, [ask(bench.pulse)])
    assert begun
    recovery.step()
    assert [m.headers["id"] for m in bench.messages()] == [begun.decode()]


def test_a_suspect_that_nobody_lined_up_is_found(bench, dies, monkeypatch):
    from denyut.tasks import recover as module

    one, _ = host_dies(bench, (dies, (1,)), (dies, (1,)))
    with monkeypatch.context() as patch:
        patch.setattr(module, "line_up", lambda *_: None)  # it dies just before
        Recovery(bench.pulse).step()
    assert bench.messages() == []
    for part in bench.pulse.keys.all_partitions():
        bench.pulse.store.client.zadd(part.held, {one.id: 1}, xx=True)
    Recovery(bench.pulse).step()
    assert [m.headers["id"] for m in bench.messages()] == [one.id]


def test_a_cancelled_suspect_lets_the_next_one_run(bench, dies):
    from denyut.tasks.cancel import end_from_outside

    results = host_dies(bench, (dies, (1,)), (dies, (1,)))
    recovery = Recovery(bench.pulse)
    recovery.step()
    [message] = bench.messages()
    end_from_outside(bench.pulse, message.headers["id"], State.CANCELLED, retention=None, running=False)
    recovery.step()
    [other] = bench.messages()
    assert {message.headers["id"], other.headers["id"]} == {r.id for r in results}


def test_a_redelivered_message_does_not_let_a_suspect_jump_the_line(bench, dies):
    new_node("dying@host")
    results = [dies.delay(1), dies.delay(1)]
    messages = bench.messages()
    for message in messages:
        with pytest.raises(DiedError):
            bench.run(message)
    for result in results:
        bench.crash(result.id)
        bench.pulse.store.client.hset(bench.pulse.keys.job(result.id).record, "suspect", 1)
    new_node("next@host")
    for message in messages:  # the broker gives them back
        bench.run(message)
    assert [bench.record(r.id).state for r in results] == [State.QUEUED] * 2
    assert [bench.record(r.id).crashes for r in results] == [0, 0]
    Recovery(bench.pulse).step()
    assert len(bench.messages()) == 1


def test_the_turns_of_many_follow_each_other_without_the_pause_between_two_looks(make_bench):
    bench = make_bench(denyut_recovery_interval=5.0)
    runs = []

    @bench.task(name="t.shares", bind=True)
    def shares(self):
        runs.append(self.request.id)
        if runs.count(self.request.id) == 1:
            raise DiedError

    results = host_dies(bench, *[(shares, ())] * 8)
    recovery = Recovery(bench.pulse)
    recovery.start()

    def over():
        bench.drain()
        return all(bench.record(r.id).state == State.COMPLETED for r in results)

    try:
        wait_until(over, timeout=20, what="all eight")
    finally:
        recovery.stop()
    assert recovery.rounds <= 3, "one look is for all of them"
