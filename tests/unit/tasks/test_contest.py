"""A second enqueue of a key: refused, merged into the job that waits, or run after the present one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from celery import group

from denyut.errors import IdempotencyConflict, JobExists
from denyut.states import State
from denyut.tasks import contest
from denyut.tasks.cancellation import cancel_job
from denyut.tasks.schedule import Schedule


def again(sync, n, **options):
    return sync.apply_async((n,), **{"on_conflict": "run_again", **options})


def newest(sync, n, **options):
    return sync.apply_async((n,), **{"on_conflict": "replace", **options})


def entry(bench, job_id):
    return bench.pulse.store.client.hgetall(bench.pulse.keys.idempotency(bench.record(job_id).digest))


# ---- raise -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1])
def test_raise_refuses_a_second_job_and_names_the_first(bench, sync, n):
    first = sync.delay(0)
    with pytest.raises(JobExists, match=first.id) as caught:
        sync.apply_async((n,), on_conflict="raise")
    assert (caught.value.job_id, caught.value.task) == (first.id, "t.sync")
    assert len(bench.messages()) == 1


def test_raise_takes_a_key_that_is_free(bench, sync):
    assert sync.apply_async((0,), on_conflict="raise").deduplicated is False
    bench.run_all()
    assert sync.ran == [0]


def test_a_member_of_a_group_whose_key_is_taken_fails_by_itself(bench, sync):
    first = sync.delay(0)
    [member] = group([sync.s(0).set(on_conflict="raise")]).apply_async().results
    bench.run_all()
    assert sync.ran == [0]
    assert bench.record(member.id).state == State.FAILED
    with pytest.raises(JobExists, match=first.id):
        member.get(timeout=5)


# ---- replace ---------------------------------------------------------------------------------------


def test_the_newest_arguments_win_while_the_job_waits(bench, sync):
    first = sync.delay(1)
    second = newest(sync, 2)
    assert (second.id, second.deduplicated) == (first.id, True)
    assert bench.drain() == 2, "the older message is void, not withdrawn"
    assert sync.ran == [2]
    assert first.get(timeout=5) == 2


def test_the_same_arguments_publish_nothing(bench, sync):
    first = sync.delay(1)
    assert newest(sync, 1).id == first.id
    assert len(bench.messages()) == 1


def test_a_job_that_waits_for_its_time_gets_the_newest_time(bench, sync, valkey):
    first = sync.apply_async((1,), countdown=60)
    due = bench.record(first.id).due
    assert newest(sync, 2, countdown=600).id == first.id
    assert bench.record(first.id).due > due + 500_000_000
    assert bench.messages() == []
    assert newest(sync, 3).id == first.id  # now
    bench.run_all()
    assert sync.ran == [3]


def test_a_call_that_comes_after_the_start_is_refused_if_it_has_other_arguments(bench, sync):
    answers = []

    def while_it_runs():
        answers.append(newest(sync, 1))
        with pytest.raises(IdempotencyConflict):
            newest(sync, 2)

    first = sync.delay(1)
    sync.during.append(while_it_runs)
    bench.run_all()
    assert [answer.id for answer in answers] == [first.id]
    assert sync.ran == [1]


def test_what_lives_elsewhere_is_given_the_newest_arguments_too(make_bench, valkey_server):
    """The broker is another Redis: the message is published beside the script."""
    bench = make_bench(
        broker_url=valkey_server.url.removesuffix("/0") + "/1", denyut_redis_url=valkey_server.url
    )
    ran = []

    @bench.task(name="t.sync", idempotency_key="sync")
    def sync(n):
        ran.append(n)

    first = sync.delay(1)
    assert newest(sync, 2).id == first.id
    bench.run_all()
    assert ran == [2]


def test_a_job_whose_id_was_given_is_nobody_elses_to_change(bench, sync):
    first = sync.apply_async((1,), task_id="mine")
    with pytest.raises(IdempotencyConflict):
        newest(sync, 2)
    bench.run_all()
    assert (sync.ran, first.get(timeout=5)) == ([1], 1)


def test_the_policy_of_the_newest_call_is_the_keys(bench, sync):
    first = sync.delay(1)
    newest(sync, 2, unique_until="start")
    assert entry(bench, first.id)[b"until"] == b"start"
    newest(sync, 3)
    assert b"until" not in entry(bench, first.id)


# ---- run again -------------------------------------------------------------------------------------


def test_one_more_run_follows_the_present_one_with_the_newest_arguments(bench, sync):
    handles = []
    sync.during.append(lambda: handles.extend(again(sync, n) for n in (2, 3, 4)))
    first = sync.delay(1)
    bench.run_all()
    assert sync.ran == [1, 4]
    assert len({handle.id for handle in handles}) == 1
    assert handles[0].id != first.id
    assert (first.get(timeout=5), handles[0].get(timeout=5)) == (1, 4)


def test_a_job_that_has_not_begun_takes_the_newest_arguments_and_runs_once(bench, sync):
    first = sync.delay(1)
    assert again(sync, 2).id == first.id
    bench.run_all()
    assert sync.ran == [2]


def test_a_completed_job_is_no_reason_to_wait(bench, sync):
    first = sync.delay(1)
    bench.run_all()
    second = again(sync, 1)
    assert second.id != first.id
    bench.run_all()
    assert sync.ran == [1, 1]
    assert entry(bench, second.id)[b"job"] == second.id.encode()


def test_the_next_run_has_the_key_after_a_failure_as_well(bench, sync):
    handles = []

    def fail():
        handles.append(again(sync, 2))
        raise ValueError

    sync.during.append(fail)
    sync.delay(1)
    bench.run_all()
    assert sync.ran == [1, 2]
    assert entry(bench, handles[0].id)[b"job"] == handles[0].id.encode()


def test_a_next_run_that_is_cancelled_leaves_the_key_to_the_present_one(bench, sync):
    def cancel_it():
        cancel_job(bench.pulse, again(sync, 2).id)

    sync.during.append(cancel_it)
    first = sync.delay(1)
    bench.run_all()
    assert sync.ran == [1]
    assert b"next" not in entry(bench, first.id)
    assert sync.delay(1).id == first.id, "the completed job answers for its key"


def test_a_call_with_the_arguments_of_the_next_run_is_answered_with_it(bench, sync):
    handles = []
    sync.during.append(lambda: handles.extend([again(sync, 2), sync.delay(2), sync.delay(1)]))
    first = sync.delay(1)
    bench.run_all()
    assert [handle.id for handle in handles] == [handles[0].id, handles[0].id, first.id]


def test_a_next_run_may_have_its_own_time(bench, sync):
    handles = []
    sync.during.append(lambda: handles.append(again(sync, 2, countdown=600)))
    sync.delay(1)
    bench.run_all()
    assert sync.ran == [1]
    assert bench.record(handles[0].id).state == State.SCHEDULED
    assert entry(bench, handles[0].id)[b"job"] == handles[0].id.encode()


def test_a_next_run_that_was_not_told_looks_for_itself(bench, sync, valkey):
    """Its place in the schedule is far off, and nothing moves it up: what told it has been lost."""
    handles = []
    sync.during.append(lambda: handles.append(again(sync, 2)))
    sync.delay(1)
    bench.drain()
    partition = bench.pulse.keys.partition(bench.pulse.keys.partition_of(handles[0].id))
    valkey.zadd(partition.schedule, {handles[0].id: 1})
    bench.run_all()
    assert sync.ran == [1, 2]


def test_a_next_run_looks_while_the_present_one_runs_and_waits_on(bench, sync, valkey):
    def look():
        handle = again(sync, 2)
        partition = bench.pulse.keys.partition(bench.pulse.keys.partition_of(handle.id))
        valkey.zadd(partition.schedule, {handle.id: 1})
        Schedule(bench.pulse).step()
        bench.drain()
        assert bench.record(handle.id).state == State.SCHEDULED
        assert sync.ran == [1]

    sync.during.append(look)
    sync.delay(1)
    bench.run_all()
    assert sync.ran == [1, 2]


def test_behind_a_job_whose_id_was_given_each_runs_in_its_turn(bench, sync):
    """Its key may live in another partition than the job, so that nobody is told of its end."""
    ids = []
    sync.during.append(lambda: ids.append(again(sync, 2).id))
    sync.apply_async((1,), task_id="one with a name")
    bench.drain()
    for _ in range(5):
        for part in bench.pulse.keys.all_partitions():
            for job_id in bench.pulse.store.client.zrange(part.schedule, 0, -1):
                record = bench.pulse.keys.job(job_id.decode()).record
                bench.pulse.store.client.hset(record, "due", 1)
                bench.pulse.store.client.zadd(part.schedule, {job_id: 1})
        bench.run_all()
    assert sync.ran == [1, 2]


def test_a_member_of_a_group_runs_after_the_job_that_has_its_key(bench, sync):
    members = []
    sync.during.append(
        lambda: members.extend(group([sync.s(2).set(on_conflict="run_again")]).apply_async().results)
    )
    sync.delay(1)
    bench.drain()
    for part in bench.pulse.keys.all_partitions():
        for job_id in bench.pulse.store.client.zrange(part.schedule, 0, -1):
            bench.pulse.store.client.hset(bench.pulse.keys.job(job_id.decode()).record, "due", 1)
            bench.pulse.store.client.zadd(part.schedule, {job_id: 1})
    bench.run_all()
    assert sync.ran == [1, 2]
    assert members[0].get(timeout=5) == 2


# ---- together --------------------------------------------------------------------------------------


def test_a_script_whose_reply_was_lost_is_sent_again_and_publishes_once(bench, sync, monkeypatch):
    sync.delay(1)
    real, script = contest.SUPERSEDE, None

    class Twice:
        def __call__(self, client, keys, args):
            nonlocal script
            script = real(client, keys, args)
            return real(client, keys, args)

    monkeypatch.setattr(contest, "SUPERSEDE", Twice())
    newest(sync, 2)
    assert script is not None
    assert len(bench.messages()) == 2


def test_of_many_at_once_one_payload_runs_and_all_have_its_job(bench, sync):
    with ThreadPoolExecutor(8) as threads:
        handles = list(threads.map(lambda n: newest(sync, n), range(40)))
    assert len({handle.id for handle in handles}) == 1
    bench.run_all()
    assert len(sync.ran) == 1
    assert handles[0].get(timeout=5) == sync.ran[0]


def test_many_at_once_behind_a_running_job_make_one_more_run(bench, sync):
    handles = []

    def many():
        with ThreadPoolExecutor(8) as threads:
            handles.extend(threads.map(lambda n: again(sync, n), range(2, 42)))

    sync.during.append(many)
    sync.delay(1)
    bench.run_all()
    assert len(sync.ran) == 2
    assert len({handle.id for handle in handles}) == 1
    assert handles[0].get(timeout=5) == sync.ran[1]
