"""A job that is sent again changes nothing; one that cannot be sent says why, and holds nobody up."""

from __future__ import annotations

import pytest
from kombu.exceptions import OperationalError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import OutOfMemoryError
from sqlalchemy.orm import Session

from denyut.database.outbox_take import take
from denyut.database.read import read_records
from denyut.states import State
from denyut.tasks.door import _DoorProducer
from denyut.tasks.outbox.deliver import clock, deliver, forget, remember
from denyut.tasks.saving.applier import Applier

PLACE = "p"


def enqueue(post, *args, **options):
    with Session(post.engine) as session, session.begin():
        return post.outbox.enqueue(session, post.note.s(*args), **options)


def taken(post):
    with post.engine.begin() as connection:
        return take(connection, post.pulse.settings.prefix, 100)


def sent(post, rows):
    found = deliver(post.pulse, PLACE, rows, clock())
    assert (found.refused, found.trouble) == ([], None)
    return [row.id for row in found.sent]


@pytest.mark.parametrize("key", [None, "k"])
def test_one_that_is_sent_again_at_any_time_runs_once(lite, key):
    job = enqueue(lite, 1, idempotency_key=key)
    rows = taken(lite)
    assert sent(lite, rows) == [job.id]
    assert sent(lite, rows) == [job.id], "while it waits"
    lite.bench.drain()
    assert sent(lite, rows) == [job.id], "after its end"
    remember(lite.pulse, PLACE, rows)
    lite.client.delete(lite.pulse.keys.job(job.id).record)
    assert sent(lite, rows) == [job.id], "after it was forgotten"
    lite.bench.drain()
    assert lite.ran == [1]
    forget(lite.pulse, PLACE, rows)
    assert lite.client.keys("*relay*:done") == []


def test_one_that_failed_does_not_take_its_key_again(lite):
    @lite.bench.task(name="t.fails")
    def fails():
        raise ValueError("no")

    with Session(lite.engine) as session, session.begin():
        lite.outbox.enqueue(session, fails.s(), idempotency_key="k")
    rows = taken(lite)
    sent(lite, rows)
    lite.bench.drain()
    sent(lite, rows)
    assert fails.apply_async(idempotency_key="k").deduplicated is False


def test_one_that_its_relay_could_not_publish_is_published_by_the_next(lite, monkeypatch):
    """Where the broker is not the Redis that has the records, these are two steps."""
    job = enqueue(lite, 1)
    rows = taken(lite)
    monkeypatch.setattr("denyut.tasks.wire.Catcher.can_catch", lambda *_: False)

    def away(*_, **__):
        raise OperationalError("the broker is away")

    with monkeypatch.context() as patch:
        patch.setattr("kombu.messaging.Producer.publish", away)
        found = deliver(lite.pulse, PLACE, rows, clock())
    assert isinstance(found.trouble, OperationalError)
    assert (found.sent, found.refused) == ([], [])
    assert lite.bench.record(job.id).state == State.QUEUED, "it is not taken back"
    assert sent(lite, rows) == [job.id]
    lite.bench.drain()
    assert lite.ran == [1]


def test_what_cannot_be_read_is_refused_and_the_others_are_sent(lite):
    jobs = [enqueue(lite, n) for n in range(3)]
    lite.change(lite.rows()[1].seq, message="nonsense")
    found = deliver(lite.pulse, PLACE, taken(lite), clock())
    assert [row.id for row in found.sent] == [jobs[0].id, jobs[2].id]
    [(row, why)] = found.refused
    assert row.id == jobs[1].id
    assert why.startswith("UnreadableMessage: it is no JSON list of three")
    lite.bench.drain()
    assert lite.ran == [0, 2]


def test_a_queue_that_redis_cannot_push_to_is_refused_with_what_it_says(lite):
    lite.client.set("odd", "no list")
    enqueue(lite, 1, queue="odd")
    found = deliver(lite.pulse, PLACE, taken(lite), clock())
    assert "WRONGTYPE" in found.refused[0][1]


@pytest.mark.parametrize("error", [OutOfMemoryError("OOM"), OSError("gone"), OperationalError("away")])
def test_a_server_in_trouble_is_nobodys_fault_and_stops_the_batch(lite, monkeypatch, error):
    first, _ = enqueue(lite, 1), enqueue(lite, 2)
    publish, calls = _DoorProducer.publish, []

    def fail(self, *args, **options):
        calls.append(1)
        if len(calls) == 2:
            raise error
        return publish(self, *args, **options)

    monkeypatch.setattr(_DoorProducer, "publish", fail)
    found = deliver(lite.pulse, PLACE, taken(lite), clock())
    assert [row.id for row in found.sent] == [first.id]
    assert (found.refused, found.trouble) == ([], error)


def test_rows_that_are_in_hand_for_long_are_given_up(lite):
    enqueue(lite, 1)
    found = deliver(lite.pulse, PLACE, taken(lite), clock() - 6)
    assert isinstance(found.trouble, TimeoutError)
    assert found.sent == []
    assert "for 6.0 s" in str(found.trouble)


def test_a_connection_that_only_one_job_breaks_is_that_jobs_fault(lite, monkeypatch):
    enqueue(lite, 1)

    def broken(*_, **__):
        raise RedisConnectionError("Connection closed by server")

    monkeypatch.setattr(_DoorProducer, "publish", broken)
    found = deliver(lite.pulse, PLACE, taken(lite), clock())
    assert found.refused[0][1] == "ConnectionError: Connection closed by server"
    monkeypatch.setattr(lite.pulse.store.client, "ping", broken)
    assert isinstance(deliver(lite.pulse, PLACE, taken(lite), clock()).trouble, RedisConnectionError)


def test_with_a_job_store_in_the_same_database_the_job_gets_there_too(make_post, tmp_path):
    url = f"sqlite:///{tmp_path / 'app.db'}"
    post = make_post(url, denyut_database_url=url)
    post.pulse.database.create()
    job = enqueue(post, 1, idempotency_key="k")
    assert post.deliver() == [1]
    applier = Applier(post.pulse)
    assert applier.step() == 1
    applier.close()
    with post.pulse.database.begin() as connection:
        assert list(read_records(connection, post.pulse.settings.prefix, [job.id])) == [job.id]
    assert post.rows() == []
