"""Every enqueue passes the door: one record, one message, or a clear refusal and nothing at all."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from celery import chain, group
from kombu.exceptions import OperationalError
from kombu.transport.redis import Channel

from denyut.errors import IdempotencyConflict, InvalidKey, Unfingerprintable
from denyut.states import State
from denyut.tasks import door
from denyut.tasks.recover import recover


def elsewhere(server):
    """Another database of the broker's server: no script can write to both."""
    return server.url.removesuffix("/0") + "/1"


@pytest.fixture
def order(bench):
    @bench.task(name="t.order", idempotency_key="order:{n}")
    def order(n, note=""):
        return n

    return order


@pytest.fixture
def noop(bench):
    @bench.task(name="t.noop")
    def noop(*args, **kwargs):
        return args

    return noop


def test_a_new_job_is_recorded_and_published_once_with_its_stamp(bench, noop):
    result = noop.delay(1)
    assert result.deduplicated is False
    record = bench.record(result.id)
    assert (record.state, record.generation, record.attempt) == (State.QUEUED, 1, 0)
    [message] = bench.messages()
    assert message.headers["denyut"]["gen"] == 1
    assert message.payload[0] == [1]


def test_the_same_key_and_arguments_give_the_existing_job_and_publish_nothing(bench, order):
    first, second = order.delay(1), order.delay(1)
    assert second.id == first.id
    assert (first.deduplicated, second.deduplicated) == (False, True)
    assert len(bench.messages()) == 1
    assert bench.counters()["duplicate"] == 1


def test_the_same_key_with_other_arguments_is_a_conflict_that_names_the_holder(bench, order):
    first = order.delay(1)
    with pytest.raises(IdempotencyConflict) as caught:
        order.delay(1, note="other")
    assert caught.value.job_id == first.id
    assert len(bench.messages()) == 1


def test_the_conflict_is_told_before_and_after_the_first_job_has_run(bench, order):
    order.delay(1)
    bench.drain()
    with pytest.raises(IdempotencyConflict):
        order.delay(1, note="other")
    assert order.delay(1).deduplicated


@pytest.mark.parametrize("how", ["argument", "header", "template", "by name", "signature"])
def test_a_key_may_be_given_in_every_way(bench, order, noop, how):
    def send():
        if how == "argument":
            return noop.apply_async((1,), idempotency_key="k")
        if how == "header":
            return noop.apply_async((1,), headers={"idempotency_key": "k"})
        if how == "template":
            return order.delay(1)
        if how == "by name":
            return bench.app.send_task("somewhere.else", (1,), idempotency_key="k")
        return noop.s(1).set(idempotency_key="k").apply_async()

    assert send().id == send().id
    assert len(bench.messages()) == 1


@pytest.mark.parametrize("bad", ["", "x" * 256, 7, b"k"])
def test_a_bad_key_is_refused_and_nothing_is_sent_or_stored(bench, noop, valkey, bad):
    before = valkey.dbsize()
    with pytest.raises(InvalidKey):
        noop.apply_async((1,), idempotency_key=bad)
    assert valkey.dbsize() == before
    assert bench.messages() == []


def test_arguments_that_cannot_be_fingerprinted_are_refused_and_nothing_is_sent(make_bench, valkey):
    bench = make_bench(task_serializer="pickle", accept_content=["pickle", "json"])

    @bench.task(name="t.any")
    def anything(value):
        return value

    with pytest.raises(Unfingerprintable):
        anything.apply_async((object,), idempotency_key="k")
    assert valkey.keys("denyut*") == []
    assert bench.messages() == []
    anything.delay(object)  # without a key anything goes
    assert len(bench.messages()) == 1


def test_many_producers_of_one_key_at_once_make_one_job(bench, order):
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: order.delay(5), range(64)))
    assert len({result.id for result in results}) == 1
    assert sum(not result.deduplicated for result in results) == 1
    assert len(bench.messages()) == 1


def test_a_given_id_is_one_job(bench, noop):
    first = noop.apply_async((1,), task_id="mine")
    second = noop.apply_async((2,), task_id="mine")
    assert (first.deduplicated, second.deduplicated) == (False, True)
    assert len(bench.messages()) == 1


@pytest.mark.parametrize("how", ["countdown", "aware eta", "text eta"])
def test_a_job_for_later_waits_in_the_store_and_not_in_the_broker(bench, noop, how):
    then = datetime.now(UTC) + timedelta(seconds=60)
    when = {"countdown": {"countdown": 60}, "aware eta": {"eta": then}, "text eta": {"eta": then.isoformat()}}
    record = bench.record(noop.apply_async((1,), **when[how]).id)
    assert record.state == State.SCHEDULED
    assert 50 * 10**6 < record.due - record.queued_at <= 60 * 10**6
    assert bench.messages() == []


def test_an_eta_in_the_past_is_published_at_once(bench, noop):
    noop.apply_async((1,), eta=datetime.now(UTC) - timedelta(days=1))
    assert len(bench.messages()) == 1


def test_a_publish_that_fails_releases_the_key_and_raises(bench, order, monkeypatch):
    from kombu.messaging import Producer

    def refuse(self, *args, **kwargs):
        raise OperationalError("the broker is down")

    with monkeypatch.context() as patch:
        patch.setattr(Producer, "publish", refuse)
        with pytest.raises(OperationalError):
            order.delay(1)
    retried = order.delay(1)
    assert retried.deduplicated is False
    assert len(bench.messages()) == 1


def test_a_copy_of_a_message_whose_publish_failed_is_dropped(make_bench, valkey_server, monkeypatch):
    from kombu.messaging import Producer

    bench = make_bench(denyut_redis_url=elsewhere(valkey_server))  # so that record and message are two steps

    @bench.task(name="t.noop")
    def noop(x):
        return x

    real = Producer.publish

    def publish_and_fail(self, *args, **kwargs):
        real(self, *args, **kwargs)
        raise OperationalError("the reply was lost")

    with monkeypatch.context() as patch:
        patch.setattr(Producer, "publish", publish_and_fail)
        with pytest.raises(OperationalError):
            noop.apply_async((1,), task_id="half-sent")
    [message] = bench.messages()
    assert bench.run(message).info.state == "IGNORED"
    assert bench.record("half-sent").state == State.CANCELLED


def test_a_callback_whose_publish_fails_once_is_sent_all_the_same(make_bench, valkey_server, monkeypatch):
    from kombu.messaging import Producer

    bench = make_bench(denyut_redis_url=elsewhere(valkey_server))  # so that record and message are two steps
    ran = []

    @bench.task(name="t.noop")
    def noop(x):
        ran.append(x)

    first = noop.apply_async(("first",), link=noop.si("callback"))
    [message] = bench.messages()
    real, tries = Producer.publish, []

    def fail_once(self, *args, **kwargs):
        tries.append(1)
        if len(tries) == 1:
            raise OperationalError("the broker is away for a moment")
        return real(self, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(Producer, "publish", fail_once)
        bench.run(message)
        bench.crash(first.id)
        bench.run(message)  # a replay, where Celery itself (before 5.7) does not try again
    bench.drain()
    if ran == ["first"]:
        [callback] = {found for found in job_ids(bench) if found != first.id}
        recover(bench.pulse, callback, "lost")
        bench.drain()
    assert ran == ["first", "callback"]


def job_ids(bench):
    client, prefix = bench.pulse.store.client, bench.pulse.settings.prefix
    return [key.decode().partition(":job:")[2] for key in client.scan_iter(f"{prefix}:*:job:*", _type="hash")]


def test_record_and_message_come_together_where_the_broker_has_both(bench, order, monkeypatch):
    def refuse(self):
        raise OperationalError("no connection to the broker is needed")

    order.delay(0)
    with monkeypatch.context() as patch:
        patch.setattr(Channel, "conn_or_acquire", refuse)
        result = order.delay(1)
    assert [m.headers["id"] for m in bench.messages()][1:] == [result.id]


def test_a_queue_that_is_no_list_is_refused_before_anything_is_written(bench, order, valkey):
    order.delay(0)
    bench.messages()
    valkey.set(bench.app.conf.task_default_queue, "mine")
    with pytest.raises(OperationalError, match="is no List but a string"):
        order.delay(1)
    valkey.delete(bench.app.conf.task_default_queue)
    assert order.delay(1).deduplicated is False


def test_a_script_that_is_sent_twice_pushes_one_message(bench, noop, monkeypatch):
    real = door.RESERVE

    def twice(*args):
        real(*args)
        return real(*args)

    with monkeypatch.context() as patch:
        patch.setattr(door, "RESERVE", twice)
        noop.delay(1)
    assert len(bench.messages()) == 1


@pytest.mark.parametrize("same_server", [True, False])
def test_a_frozen_signature_that_is_applied_again_runs_again(make_bench, valkey_server, same_server):
    bench = make_bench(**({} if same_server else {"denyut_redis_url": elsewhere(valkey_server)}))
    runs = []

    @bench.task(name="t.again")
    def again(x):
        runs.append(x)
        return x

    signature = again.s(1)
    signature.freeze()
    first = signature.apply_async()
    assert signature.apply_async().deduplicated  # it has not run yet
    bench.drain()
    fence = bench.record(first.id).fence
    second = signature.apply_async()
    assert second.id == first.id
    bench.drain()
    assert runs == [1, 1]
    record = bench.record(first.id)
    assert (record.state, record.attempt, record.generation) == (State.COMPLETED, 1, 2)
    assert record.fence > fence


def test_a_given_id_that_is_sent_again_is_the_same_job(bench, noop):
    noop.apply_async((1,), task_id="mine")
    bench.drain()
    assert noop.apply_async((1,), task_id="mine").deduplicated
    assert bench.messages() == []


def test_a_frozen_signature_that_a_job_sends_again_after_a_crash_is_sent_once(bench):
    @bench.task(name="t.child")
    def child():
        return 1

    signature = child.si()
    signature.freeze()

    @bench.task(name="t.parent")
    def parent():
        signature.apply_async()

    parent.apply_async(task_id="parent")
    [message] = bench.messages()
    bench.run(message)
    bench.drain()
    bench.pulse.store.client.hset(bench.pulse.keys.job("parent").record, "state", "RUNNING")
    bench.run(message)  # its worker had died before it could say that it was done
    assert bench.record("parent").attempt == 2
    assert bench.messages() == []


@pytest.mark.parametrize("compression", ["zlib", "bzip2", "gzip"])
def test_a_compressed_message_arrives_as_it_was_sent(bench, order, compression):
    order.apply_async((3,), {"note": "x" * 500}, compression=compression)
    [message] = bench.messages()
    assert message.payload[:2] == [[3], {"note": "x" * 500}]
    assert order.delay(3, note="x" * 500).deduplicated


def test_a_duplicate_in_a_group_is_published_and_follows_the_first(bench, order):
    result = group(order.s(1), order.s(1))()
    first, second = result.children
    assert bench.record(second.id).follows == first.id
    assert len(bench.messages()) == 2


def test_a_conflicting_member_of_a_group_is_published_to_fail_by_itself(bench, order):
    result = group(order.s(1), order.s(1, note="other"))()
    assert bench.record(result.children[1].id).conflict == result.children[0].id


def test_a_chain_continues_with_the_ids_its_caller_waits_for(bench, noop, order):
    result = chain(noop.s(1), order.si(2))()
    bench.drain()
    assert result.get(timeout=5) == 2
    assert bench.record(result.id).state == State.COMPLETED
    assert bench.record(result.parent.id).state == State.COMPLETED


def test_tasks_of_celery_itself_are_never_jobs(bench):
    result = bench.app.send_task("celery.backend_cleanup")
    assert not hasattr(result, "deduplicated")
    assert bench.record(result.id) is None


def test_without_all_tasks_only_declared_jobs_pass_the_door(pulse):
    from denyut import JobTask

    one = pulse(all_tasks=False)

    @one.app.task(shared=False, name="t.plain")
    def plain():
        pass

    @one.app.task(shared=False, name="t.job", base=JobTask)
    def job():
        pass

    assert not hasattr(plain.delay(), "deduplicated")
    assert job.delay().deduplicated is False


def test_a_connection_of_the_callers_own_is_used(bench, noop):
    with bench.app.connection_for_write() as connection:
        noop.apply_async((1,), connection=connection)
    assert len(bench.messages()) == 1


def test_priority_and_properties_reach_the_broker(bench, noop):
    noop.apply_async((1,), priority=0, reply_to="somebody")
    [message] = bench.messages()
    assert message.properties["reply_to"] == "somebody"


@pytest.mark.parametrize("countdown", [float("nan"), float("inf")])
def test_a_countdown_that_never_ends_is_refused(bench, noop, countdown):
    with pytest.raises(ValueError, match="finite"):
        noop.apply_async((1,), countdown=countdown)
    assert bench.messages() == []
