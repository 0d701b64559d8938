"""Many kept messages published at once: few round trips, none lost, none held up by another."""

from __future__ import annotations

import pytest
from kombu.exceptions import OperationalError
from redis.client import Pipeline

from denyut.tasks.envelope import Envelope, Stamp
from denyut.tasks.publish import publish_all


@pytest.fixture
def kept(bench):
    """Messages as the store keeps them."""
    task = bench.task(name="t.later")(_args)

    def make(count, **options):
        found = []
        for n in range(count):
            job = task.apply_async((n,), countdown=60, **options)
            raw = bench.pulse.store.client.hget(bench.pulse.keys.job(job.id).record, "msg")
            found.append((job.id, Envelope.load(raw), Stamp(gen=1, marker="m", at=n)))
        return found

    return make


def _args(*args):
    return args


def publish(bench, messages):
    with bench.app.producer_or_acquire() as producer:
        return list(publish_all(bench.pulse, producer, messages))


@pytest.mark.parametrize("elsewhere", [False, True], ids=["the records' Redis", "another broker"])
def test_all_are_published_as_they_would_be_one_by_one(make_bench, valkey_server, elsewhere):
    url = valkey_server.url.removesuffix("/0") + "/1" if elsewhere else valkey_server.url
    bench = make_bench(broker_url=url, denyut_redis_url=valkey_server.url)
    task = bench.task(name="t.later")(_args)
    messages = []
    for n in range(5):
        job = task.apply_async((n,), countdown=60, priority=n)
        raw = bench.pulse.store.client.hget(bench.pulse.keys.job(job.id).record, "msg")
        messages.append((job.id, Envelope.load(raw), Stamp(gen=1, marker="m", at=n)))
    assert sorted(publish(bench, messages)) == sorted(job_id for job_id, _, _ in messages)
    found = {m.headers["id"]: m for m in bench.messages()}
    assert len(found) == 5
    for n, (job_id, _, _) in enumerate(messages):
        message = found[job_id]
        assert message.headers["denyut"] == {"gen": 1, "marker": "m", "at": n}
        assert (message.payload[0], message.properties["priority"]) == ([n], n)


def test_where_the_broker_is_the_records_redis_one_round_trip_does(bench, kept, monkeypatch):
    messages = kept(50)
    publish(bench, messages[:1])  # declares the queue
    executed = []
    execute = Pipeline.execute

    def counted(self, *args, **options):
        executed.append(len(self.command_stack))
        return execute(self, *args, **options)

    monkeypatch.setattr(Pipeline, "execute", counted)
    assert len(publish(bench, messages[1:])) == 49
    assert executed == [49]
    assert len(bench.messages()) == 50


def test_one_whose_queue_cannot_take_it_is_not_told_as_published(bench, kept):
    good, bad = kept(2), kept(1, queue="no.list")
    client = bench.pulse.store.client
    publish(bench, kept(1))
    bench.messages()
    client.set("no.list", "not a list")
    with bench.app.producer_or_acquire() as producer:
        steps = publish_all(bench.pulse, producer, [good[0], *bad, good[1]])
        assert {next(steps), next(steps)} == {good[0][0], good[1][0]}
        with pytest.raises(OperationalError, match="WRONGTYPE"):
            next(steps)
    assert sorted(m.headers["id"] for m in bench.messages()) == sorted([good[0][0], good[1][0]])


def test_one_that_can_never_be_published_is_logged_and_does_not_hold_up_the_others(bench, kept, caplog):
    messages = kept(3)
    messages[1][1].headers["odd"] = object()
    published = publish(bench, messages)
    assert sorted(published) == sorted(job_id for job_id, _, _ in messages)
    assert [m.headers["id"] for m in bench.messages()] == [messages[0][0], messages[2][0]]
    assert "cannot be published" in caplog.text
