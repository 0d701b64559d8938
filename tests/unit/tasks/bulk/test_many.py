"""Many jobs enqueued at once: each is whole, answered in order, and what is wrong with one is its own."""

from __future__ import annotations

import threading

import pytest
from kombu.exceptions import EncodeError, OperationalError

from denyut.errors import (
    EnqueueErrors,
    IdempotencyConflict,
    InvalidKey,
    InvalidUniqueness,
    JobExists,
    MessageTooLarge,
)
from denyut.states import State
from denyut.tasks.bulk import batch as batch_module


@pytest.fixture
def echo(bench):
    ran = []

    @bench.task(name="t.echo")
    def echo(n, text=""):
        ran.append(n)
        return n

    echo.ran = ran
    return echo


def many(bench, task, calls, **options):
    return bench.pulse.jobs.enqueue_many(task, calls, **options)


def test_every_job_runs_once_and_is_answered_in_order(bench, echo):
    jobs = many(bench, echo, (((n,),) for n in range(700)))
    assert len({job.id for job in jobs}) == 700
    assert bench.drain() == 700
    assert sorted(echo.ran) == list(range(700))
    assert [job.get(timeout=5) for job in jobs[::100]] == list(range(0, 700, 100))
    assert {job.deduplicated for job in jobs} == {False}


def test_calls_are_taken_as_they_are_needed(bench, echo):
    taken = []

    def calls():
        for n in range(25):
            taken.append(n)
            yield ((n,),)
            assert len(taken) - bench.counters().get("enqueued", 0) <= 30

    assert len(many(bench, echo, calls(), batch=10)) == 25
    assert many(bench, echo, []) == []


def test_keys_are_answered_as_calls_one_after_the_other_would_be(bench, echo):
    jobs = many(bench, echo, [((n,), {}, {"idempotency_key": f"k{n % 3}"}) for n in (0, 1, 2, 0, 1, 2)])
    assert [job.id for job in jobs[:3]] == [job.id for job in jobs[3:]]
    assert [job.deduplicated for job in jobs] == [False] * 3 + [True] * 3
    assert bench.drain() == 3
    assert bench.counters()["duplicate"] == 3


def test_a_call_may_be_repeated_with_its_keys(bench, echo):
    calls = [((n,), None, {"idempotency_key": f"k{n}"}) for n in range(30)]
    first, second = many(bench, echo, calls[:20]), many(bench, echo, calls)
    assert [job.id for job in first] == [job.id for job in second[:20]]
    assert [job.deduplicated for job in second] == [True] * 20 + [False] * 10
    assert bench.drain() == 30


def test_what_is_wrong_with_one_is_told_and_the_others_are_enqueued(bench, echo, make_bench):
    calls = [
        ((0,),),
        ((1, "x", "too many"),),
        ((2,), {}, {"idempotency_key": ""}),
        ((object(),),),
        7,
        (8,),
        ((9,), "kwargs"),
        ((10,), {}, {"on_conflict": "replce", "idempotency_key": "k"}),
        ((11,), {}, {"countdown": float("nan")}),
        ((12, "x" * 9_000_000),),
        ((13,),),
    ]
    with pytest.raises(EnqueueErrors, match="9 of 11 calls were not enqueued: call 1: ") as caught:
        many(bench, echo, calls)
    kinds = [type(found) for found in caught.value.results]
    assert kinds[1:12] == [
        TypeError, InvalidKey, EncodeError, TypeError, TypeError, TypeError, InvalidUniqueness, ValueError,
        MessageTooLarge, kinds[10],
    ]  # fmt: skip
    assert bench.drain() == 2
    assert echo.ran == [0, 13]
    assert set(caught.value.errors) == set(range(1, 10))


def test_errors_can_be_returned_among_the_results(bench, echo):
    found = many(bench, echo, [((1,),), ((1, 2, 3),)], on_error="return")
    assert isinstance(found[1], TypeError)
    assert found[0].id


def test_conflicts_are_those_of_apply_async(bench, echo):
    first = echo.apply_async((1,), idempotency_key="k")
    found = many(bench, echo, [((1,),), ((2,),)], idempotency_key="k", on_error="return")
    assert found[0].id == first.id
    assert isinstance(found[1], IdempotencyConflict)
    [refused] = many(bench, echo, [((1,),)], idempotency_key="k", on_conflict="raise", on_error="return")
    assert isinstance(refused, JobExists)
    [merged] = many(bench, echo, [((3,),)], idempotency_key="k", on_conflict="replace")
    assert merged.id == first.id
    bench.drain()
    assert echo.ran == [3]


def test_a_key_that_a_failed_job_of_another_partition_left_is_free(bench, echo):
    keys = bench.pulse.keys
    left = next(f"id{n}" for n in range(99) if keys.partition_of(f"id{n}") == 3)
    for n in range(40):  # some of their keys live elsewhere than the job
        job = echo.apply_async((n,), idempotency_key=f"k{n}", task_id=f"{left}-{n}")
        bench.pulse.store.client.hset(keys.job(job.id).record, "state", "FAILED")
    found = many(bench, echo, [((n,), {}, {"idempotency_key": f"k{n}"}) for n in range(40)])
    there = [keys.partition_of(job.id) for job in found if not job.deduplicated]
    assert there, "no key lives elsewhere than its job"


def test_countdowns_queues_and_priorities_are_a_calls_own(bench, echo):
    jobs = many(
        bench, echo, [((0,), {}, {"countdown": 60}), ((1,), {}, {"queue": "other"}), ((2,),)], priority=5
    )
    assert bench.record(jobs[0].id).state == State.SCHEDULED
    assert [message.headers["id"] for message in bench.messages("other")] == [jobs[1].id]
    assert bench.drain() == 1


def test_an_option_that_cannot_be_compared_goes_its_own_way_in_order(bench, echo):
    link = echo.s(99)
    calls = [((0,),), ((1,), {}, {"link": link, "headers": {"a": ["b"]}}), ((2,),)]
    assert [job.deduplicated for job in many(bench, echo, calls)] == [False] * 3
    bench.drain()
    assert echo.ran[:3] == [0, 1, 2]


def test_a_task_is_known_by_name_and_one_that_is_no_job_is_published_plainly(bench, echo):
    assert many(bench, "t.echo", [((1,),)])[0].id
    assert many(bench, "t.nowhere", [((1,),)])[0].id
    [plain] = many(bench, "celery.ping", [((),)])
    assert bench.record(plain.id) is None
    assert len(bench.messages()) == 3


def test_a_broker_that_lives_elsewhere_gets_the_messages_from_a_producer(make_bench, valkey_server):
    bench = make_bench(
        broker_url=valkey_server.url.removesuffix("/0") + "/1", denyut_redis_url=valkey_server.url
    )
    ran = []

    @bench.task(name="t.echo", idempotency_key="k{n}")
    def echo(n, text=""):
        ran.append(n)

    jobs = many(bench, echo, [((n, "é"),) for n in (1, 2, 1)])
    assert [job.deduplicated for job in jobs] == [False, False, True]
    assert bench.drain() == 2
    assert ran == [1, 2]


def test_what_cannot_be_published_is_taken_back_and_told(make_bench, valkey_server, monkeypatch):
    bench = make_bench(
        broker_url=valkey_server.url.removesuffix("/0") + "/1", denyut_redis_url=valkey_server.url
    )

    @bench.task(name="t.echo")
    def echo(n):
        return n

    real = batch_module.publish_all

    def half(pulse, producer, messages):
        yield from real(pulse, producer, messages[:2])
        raise OperationalError("the broker is away")

    monkeypatch.setattr(batch_module, "publish_all", half)
    with pytest.raises(EnqueueErrors, match="the broker is away") as caught:
        many(bench, echo, [((n,),) for n in range(5)])
    assert all(isinstance(found, OperationalError) for found in caught.value.results)
    assert bench.counters()["unpublished"] == 3
    assert bench.drain() == 2


def test_a_lost_reply_makes_no_second_job(bench, echo, monkeypatch):
    real = batch_module.run_all
    monkeypatch.setattr(
        batch_module,
        "run_all",
        lambda client, calls, **more: (real(client, calls, **more), real(client, calls, **more))[1],
    )
    jobs = many(bench, echo, [((n,), {}, {"idempotency_key": f"k{n}"}) for n in range(10)])
    assert {job.deduplicated for job in jobs} == {False}
    assert bench.drain() == 10


def test_a_queue_that_is_no_list_is_the_error_of_its_calls(bench, echo, valkey):
    valkey.set("taken", "1")
    found = many(bench, echo, [((1,), {}, {"queue": "taken"}), ((2,),)], on_error="return")
    assert "wrong kind of value" in str(found[0])
    assert bench.drain() == 1


@pytest.mark.parametrize("wrong", [{"batch": 0}, {"batch": True}, {"batch": 1.5}, {"on_error": "skip"}])
def test_a_wrong_option_is_refused_before_anything_is_taken(bench, echo, wrong):
    with pytest.raises(ValueError, match="must be"):
        many(bench, echo, iter([((1,),)]), **wrong)
    assert bench.messages() == []


def test_several_threads_enqueue_at_once(bench, echo):
    found = []
    calls = [((n,), {}, {"idempotency_key": f"k{n}"}) for n in range(300)]
    threads = [
        threading.Thread(target=lambda: found.append(many(bench, echo, calls, batch=50))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert {tuple(job.id for job in jobs) for jobs in found} == {tuple(job.id for job in found[0])}
    assert bench.drain() == 300
