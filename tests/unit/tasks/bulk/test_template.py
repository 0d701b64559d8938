"""What a batch sends is what ``apply_async`` would have sent, to the byte."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta

import pytest
from celery import signals

from denyut.tasks.bulk.template import can_have_template
from denyut.tasks.reschedule import reschedule
from denyut.tasks.schedule import Schedule

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{32}\b")
LATER = datetime.now(UTC) + timedelta(hours=1)


@pytest.fixture
def echo(bench):
    @bench.task(name="t.echo", bind=True, priority=3)
    def echo(self, *args, **kwargs):
        return [list(args), kwargs]

    return echo


def texts(bench, queue=None):
    """What is in the queue, without what is drawn for each message."""
    client = bench.pulse.store.client
    queue = queue or bench.app.conf.task_default_queue
    found = [raw for key in sorted(client.scan_iter(f"{queue}*")) for raw in client.lrange(key, 0, -1)]
    client.flushdb()
    return [UUID.sub("ID", re.sub(r'"(marker|at)": "?\d+"?', r'"\1": 0', raw.decode())) for raw in found]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"idempotency_key": 'k"é\n'},
        {"queue": "elsewhere"},
        {"priority": 9},
        {"serializer": "yaml"},
        {"compression": "zlib"},
        {"idempotency_key": "k", "unique_for": 5, "unique_scope": "s"},
        {"headers": {"x": "y"}},
        {"ignore_result": True, "time_limit": 5},
        {"argsrepr": "(secret)"},
        {"shadow": "t.other"},
    ],
    ids=str,
)
@pytest.mark.parametrize(("args", "kwargs"), [((), {}), ((1, "it's", None), {"a": [1.5, {"b": "é\u2028"}]})])
def test_the_message_is_the_same_to_the_byte(bench, echo, options, args, kwargs):
    echo.apply_async(args, kwargs, **options)
    one = texts(bench, options.get("queue"))
    bench.pulse.jobs.enqueue_many(echo, [(args, kwargs)], **options)
    assert texts(bench, options.get("queue")) == one
    bench.pulse.jobs.enqueue_many(echo, [(args, kwargs, options)])
    assert texts(bench, options.get("queue")) == one


@pytest.mark.parametrize(
    "options", [{"eta": LATER}, {"eta": LATER.isoformat()}, {"eta": LATER, "expires": LATER}]
)
def test_what_is_for_later_waits_in_the_store_and_goes_out_as_the_same_message(bench, echo, options):
    def sent(make):
        job = make()
        client, record = bench.pulse.store.client, bench.pulse.keys.job(job.id).record
        due, expires = (float(x or 0) / 1e6 for x in client.hmget(record, "due", "expires"))
        client.hdel(record, "expires")
        reschedule(bench.pulse, job.id, countdown=0.0)
        Schedule(bench.pulse).step()
        [text] = texts(bench)
        message = json.loads(text)
        return message["headers"], message["body"], due, expires

    many = sent(lambda: bench.pulse.jobs.enqueue_many(echo, [((1,), None, options)])[0])
    one = sent(lambda: echo.apply_async((1,), **options))
    assert many[:2] == one[:2]
    assert many[2:] == pytest.approx(one[2:], abs=5)  # seconds: both are told from when they were called


def test_inside_a_job_the_messages_name_their_parent_and_root(bench, echo):
    seen = []

    @bench.task(name="t.parent")
    def parent():
        seen.extend(bench.pulse.jobs.enqueue_many(echo, [((1,),)]))

    job = parent.delay()
    for message in bench.messages():
        bench.run(message)
    [child] = bench.messages()
    assert (child.headers["parent_id"], child.headers["root_id"]) == (job.id, job.id)
    assert child.headers["id"] == seen[0].id
    assert [each.id for each in job.children] == [seen[0].id]


# ---- who goes his own way --------------------------------------------------------------------------


def test_a_task_that_looks_at_its_own_calls_has_no_template(bench, echo):
    assert can_have_template(bench.app, "t.echo", bench.app.tasks["t.echo"])

    class Own(bench.app.Task):
        def apply_async(self, args=None, kwargs=None, **options):
            return super().apply_async(args, kwargs, **{**options, "queue": "mine"})

    @bench.task(name="t.own", base=Own, lazy=False)
    def task(x):
        return x

    assert not can_have_template(bench.app, "t.own", task)
    [job] = bench.pulse.jobs.enqueue_many(task, [((1,),)])
    assert [message.headers["id"] for message in bench.messages("mine")] == [job.id]


def test_handlers_of_celerys_signals_see_each_message(bench, echo):
    seen = []

    @signals.before_task_publish.connect
    def look(headers=None, **_):
        headers["mark"] = len(seen)
        seen.append(headers["id"])

    try:
        jobs = bench.pulse.jobs.enqueue_many(echo, [((n,),) for n in range(3)])
    finally:
        signals.before_task_publish.disconnect(look)
    assert seen == [job.id for job in jobs]
    assert sorted(message.headers["mark"] for message in bench.messages()) == [0, 1, 2]


def test_a_route_that_looks_at_arguments_is_asked_for_each_call(bench, echo):
    def route(name, args, kwargs, options, task=None, **_):
        return {"queue": "odd" if args[0] % 2 else "even"}

    bench.app.conf.task_routes = (route,)
    bench.app.amqp.flush_routes()
    bench.app.amqp.__dict__.pop("router", None)
    bench.pulse.jobs.enqueue_many(echo, [((n,),) for n in range(4)])
    assert [len(bench.messages(queue)) for queue in ("odd", "even")] == [2, 2]
