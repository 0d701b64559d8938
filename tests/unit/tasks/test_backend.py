"""Results: stored with the end of the job where one script can, as Celery would have stored them."""

from __future__ import annotations

import json
import pickle

import pytest
from celery import chord, group
from celery.app.task import Context
from celery.backends.redis import RedisBackend
from celery.result import AsyncResult
from support import DiedError

from denyut.states import State
from denyut.tasks import finish
from denyut.tasks.attempt import Attempt, activate_attempt
from denyut.tasks.backend import _convert
from denyut.tasks.claim import Claim, Code
from denyut.tasks.run import JobRun


@pytest.fixture
def echo(bench):
    @bench.task(name="t.echo")
    def echo(x):
        return x

    return echo


def settled(bench, job_id):
    return bench.record(job_id).settled


@pytest.fixture
def at_the_end(monkeypatch):
    """Look at what there is when the script that ends a job has just run."""
    seen = []

    def watch(look):
        real = finish.FINISH

        def finish_and_look(*args):
            reply = real(*args)
            seen.append(look())
            return reply

        monkeypatch.setattr(finish, "FINISH", finish_and_look)
        return seen

    return watch


def test_result_and_end_come_in_one_step(bench, echo, at_the_end):
    result = echo.delay({"a": [1, None]})
    seen = at_the_end(lambda: (settled(bench, result.id), bench.app.backend.get_state(result.id)))
    bench.drain()
    assert seen == [(True, "SUCCESS")]
    assert result.get(timeout=5) == {"a": [1, None]}
    assert bench.pulse.jobs.result(result.id) == {"a": [1, None]}


def test_celery_itself_would_have_stored_the_same(bench, pulse):
    def stored(app):
        @app.task(name="t.same", shared=False, bind=True)
        def same(self):
            return [1.5, "x"]

        result = same.apply_async(task_id="same")
        other = type(bench)(app.denyut)
        other.drain()
        key = app.backend.get_key_for_task("same")
        meta = json.loads(app.backend.client.get(key))
        ttl = app.backend.client.ttl(key)
        meta.pop("date_done")
        result.forget()
        return meta, ttl

    ours, ttl = stored(pulse(result_extended=True).app)
    theirs, their_ttl = stored(pulse(result_extended=True, denyut_lease_ttl=5.0).app)
    assert ours["status"] == "SUCCESS"
    for meta in (ours, theirs):
        meta.pop("queue")
    assert ours == theirs
    assert abs(ttl - their_ttl) <= 2


@pytest.mark.parametrize(
    "conf", [{"result_serializer": "pickle"}, {"result_backend": "cache+memory://"}, {"db": "other"}]
)
def test_elsewhere_celery_stores_the_result_before_the_job_is_settled(
    make_bench, valkey_server, at_the_end, conf
):
    if conf.pop("db", None):
        conf["result_backend"] = valkey_server.url.removesuffix("/0") + "/1"
    bench = make_bench(accept_content=["json", "pickle"], **conf)

    @bench.task(name="t.elsewhere")
    def echo(x):
        return x

    result = echo.delay(3)
    seen = at_the_end(lambda: settled(bench, result.id))
    bench.drain()
    assert seen == [False]
    assert bench.app.backend.get_result(result.id) == 3
    assert settled(bench, result.id)


def test_a_job_with_a_link_is_settled_after_the_link_was_sent(bench, echo, at_the_end):
    result = echo.apply_async((1,), link=echo.si(2))
    seen = at_the_end(lambda: settled(bench, result.id))
    [message] = bench.messages()
    bench.run(message)
    assert seen == [False]
    assert settled(bench, result.id)


def test_a_task_with_handlers_of_its_own_is_settled_after_them(bench, at_the_end):
    seen_in_handler = []

    class Careful(bench.app.Task):
        def on_success(self, retval, task_id, args, kwargs):
            seen_in_handler.append(bench.record(task_id).settled)

    @bench.task(name="t.careful", base=Careful)
    def careful():
        return 1

    result = careful.delay()
    bench.drain()
    assert seen_in_handler == [False]
    assert settled(bench, result.id)


def test_those_who_wait_are_told(bench, echo, valkey):
    result = echo.delay(4)
    pubsub = valkey.pubsub()
    pubsub.subscribe(bench.app.backend.get_key_for_task(result.id))
    assert pubsub.get_message(timeout=5)["type"] == "subscribe"
    bench.drain()
    message = pubsub.get_message(timeout=5)
    assert json.loads(message["data"])["result"] == 4
    pubsub.close()


def test_a_success_that_is_there_is_not_overwritten(bench, echo):
    result = echo.delay(5)
    bench.app.backend.store_result(result.id, "first", "SUCCESS")
    bench.drain()
    assert AsyncResult(result.id, app=bench.app).get(timeout=5) == "first"


def test_an_ignored_result_is_not_stored(bench):
    @bench.task(name="t.ignored", ignore_result=True)
    def ignored():
        return 1

    result = ignored.delay()
    bench.drain()
    assert bench.app.backend.client.get(bench.app.backend.get_key_for_task(result.id)) is None
    assert bench.record(result.id).state == State.COMPLETED


def test_a_large_result_is_left_to_celery(bench, echo):
    result = echo.delay("x" * 300_000)
    bench.drain()
    assert len(result.get(timeout=5)) == 300_000


def test_the_body_of_a_chord_is_sent_by_the_chord(bench, echo):
    @bench.task(name="t.total")
    def total(values):
        return sum(values)

    result = chord(group(echo.s(1), echo.s(2)), total.s())()
    bench.drain()
    assert result.get(timeout=5) == 3
    by = bench.pulse.store.client.hget(bench.pulse.keys.job(result.id).record, "by").decode()
    assert by == f"{result.parent.id}#0"


@pytest.mark.parametrize("where", ["claimed", "sent"])
def test_the_body_of_a_chord_is_sent_once_though_the_member_that_was_to_send_it_died(
    bench, echo, monkeypatch, where
):
    runs = []

    @bench.task(name="t.total")
    def total(values):
        runs.append(values)
        return sum(values)

    result = chord(group(echo.s(1), echo.s(2)), total.s())()
    first, last = bench.messages()
    bench.run(first)

    def die(*_, **__):
        raise DiedError

    with monkeypatch.context() as patched:
        step = "_chord_claim_extend_script" if where == "claimed" else "_chord_cleanup_script"
        patched.setattr(type(bench.app.backend), step, die)
        with pytest.raises(DiedError):
            bench.run(last)
    bench.crash(last.headers["id"])
    bench.run(last)
    bench.drain()
    assert runs == [[1, 2]]
    assert result.get(timeout=5) == 3
    assert settled(bench, last.headers["id"])


class PushingBackend(RedisBackend):
    """What Celery before 5.7 does at the end of a chord's member, with ``result_chord_ordered`` off."""

    _chord_zset = False

    @property
    def _chord_part_return_script(self):
        raise AttributeError("it has no such script")

    def on_chord_part_return(self, request, state, result, **_):
        part = self.encode([1, request.id, state, self.encode_result(result, state)])
        return self.client.rpush(self.get_key_for_group(request.group, ".j"), part)


@pytest.mark.parametrize(("code", "counted"), [(Code.REPLAY, 1), (Code.CLAIMED, 2)])
def test_the_part_of_a_chord_that_is_replayed_is_counted_once_where_pushes_are_counted(
    bench, echo, valkey_server, code, counted
):
    backend = _convert(PushingBackend(app=bench.app, url=valkey_server.url))
    request = Context(id="member", group="g", chord={"task": "t.echo"})
    run = JobRun(id="member", task="t.echo")
    attempt = Attempt(
        pulse=bench.pulse, task=echo, queue="q", claim=Claim(code=code, owner="w"), run=run, retention=60
    )
    with activate_attempt(attempt):
        backend.on_chord_part_return(request, "SUCCESS", [1, "a"])
        backend.on_chord_part_return(request, "SUCCESS", [1, "a"])
    assert backend.client.llen(backend.get_key_for_group("g", ".j")) == counted
    backend.client.close()


def test_a_chord_that_is_applied_again_runs_again(bench, echo):
    runs = []

    @bench.task(name="t.total")
    def total(values):
        runs.append(sum(values))
        return sum(values)

    signature = chord(group(echo.s(1), echo.s(2)), total.s())
    signature.freeze()
    for _ in range(2):
        signature.apply_async()
        bench.drain()
    assert runs == [3, 3]


def test_a_backend_that_was_made_before_is_mixed_in_too(valkey_server):
    from celery import Celery

    from denyut import Denyut
    from denyut.tasks.backend import JobResults

    app = Celery("early", broker=valkey_server.url, backend=valkey_server.url, set_as_current=False)
    assert not isinstance(app.backend, JobResults)
    Denyut(app)
    assert isinstance(app.backend, JobResults)


def test_a_result_can_be_pickled_as_without_denyut(bench, echo):
    result = echo.delay(6)
    bench.app.set_current()
    again = pickle.loads(pickle.dumps(result))
    bench.drain()
    assert again.id == result.id
    assert type(again.backend) is RedisBackend
    assert again.get(timeout=5) == 6
