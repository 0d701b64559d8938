"""Messages for later of clients without Denyut: into the store on receipt, never lost."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from celery import Celery
from support import wait_until

from denyut.states import State
from denyut.tasks.schedule import Schedule
from denyut.tasks.shelf import Shelf


@pytest.fixture
def task(bench):
    @bench.task(name="t.later", bind=True)
    def later(self, *args, **kwargs):
        return [list(args), kwargs, self.request.eta]

    return later


@pytest.fixture
def plain(bench):
    """A client without Denyut."""
    app = Celery("plain", broker=bench.app.conf.broker_url, set_as_current=False)
    app.conf.task_default_queue = bench.app.conf.task_default_queue
    app.conf.result_backend = bench.app.conf.result_backend
    yield app
    app.close()


def receive(bench, task, shelf=None):
    """Receive one message; True if the store has taken it."""
    (message,) = bench.messages()
    return (shelf or Shelf(bench.pulse)).take(task, message)


def run_when_due(bench):
    wait_until(lambda: Schedule(bench.pulse).look() and bench.drain(), what="the job to be due")


@pytest.mark.parametrize("compression", [None, "zlib"])
def test_it_waits_in_the_store_and_runs_when_it_is_due(bench, task, plain, compression):
    sent = plain.send_task("t.later", (1, "é"), {"b": 2}, countdown=0.3, compression=compression)
    assert receive(bench, task)
    record = bench.record(sent.id)
    assert (record.state, record.task, record.queue) == (
        State.SCHEDULED, "t.later", bench.app.conf.task_default_queue,
    )  # fmt: skip
    run_when_due(bench)
    args, kwargs, eta = sent.get(timeout=5)
    assert (args, kwargs) == ([1, "é"], {"b": 2})
    assert abs(datetime.fromisoformat(eta).timestamp() - record.due / 1e6) < 0.2
    assert bench.counters()["adopted"] == 1


@pytest.mark.parametrize(
    "when",
    [{}, {"eta": datetime(2020, 1, 1, tzinfo=UTC)}, {"countdown": -5}],
    ids=["no eta", "past eta", "negative countdown"],
)
def test_what_is_for_now_is_left_to_celery(bench, task, plain, when):
    plain.send_task("t.later", **when)
    assert not receive(bench, task)


def test_what_denyut_has_sent_is_left_to_celery(bench, task):
    task.delay()
    (message,) = bench.messages()
    message.headers["eta"] = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    assert not Shelf(bench.pulse).take(task, message)


def test_a_copy_is_not_needed_and_changes_nothing(bench, task, plain):
    sent = plain.send_task("t.later", countdown=60)
    (message,) = bench.messages()
    shelf = Shelf(bench.pulse)
    assert shelf.take(task, message)
    before = bench.record(sent.id)
    assert shelf.take(task, message)
    assert bench.record(sent.id) == before


@pytest.mark.parametrize(("state", "taken"), [("QUEUED", False), ("RUNNING", False), ("CANCELLED", True)])
def test_a_copy_of_a_job_that_is_on_its_way_is_left_to_celery(bench, task, plain, state, taken):
    sent = plain.send_task("t.later", countdown=60)
    (message,) = bench.messages()
    Shelf(bench.pulse).take(task, message)
    bench.pulse.store.client.hset(bench.pulse.keys.job(sent.id).record, "state", state)
    assert Shelf(bench.pulse).take(task, message) is taken


def test_while_redis_cannot_be_reached_messages_stay_with_celery_and_nobody_waits_long(
    make_bench, restartable_valkey, valkey_server, caplog
):
    bench = make_bench(broker_url=valkey_server.url, denyut_redis_url=restartable_valkey.url)
    task = bench.task(name="t.later")(_nothing)
    plain = Celery("plain", broker=bench.app.conf.broker_url, set_as_current=False)
    plain.conf.task_default_queue = bench.app.conf.task_default_queue
    plain.send_task("t.later", countdown=60)
    plain.close()
    (message,) = bench.messages()
    shelf = Shelf(bench.pulse)
    restartable_valkey.kill()
    assert not shelf.take(task, message)
    assert "stay in memory" in caplog.text
    restartable_valkey.start()
    assert not shelf.take(task, message)  # not asked again at once
    shelf._not_before = 0.0
    assert shelf.take(task, message)


def _nothing():
    return None


def test_a_key_is_held_while_it_waits(bench, task, plain):
    first = plain.send_task("t.later", (1,), countdown=60, headers={"idempotency_key": "k"})
    assert receive(bench, task)
    assert bench.record(first.id).key == "k"
    again = task.apply_async((1,), idempotency_key="k")
    assert (again.id, again.deduplicated) == (first.id, True)
    second = plain.send_task("t.later", (1,), countdown=60, headers={"idempotency_key": "k"})
    (message,) = bench.messages()
    shelf = Shelf(bench.pulse)
    assert shelf.take(task, message)
    assert shelf.take(task, message)
    assert bench.record(second.id).follows == first.id


@pytest.mark.parametrize(
    "spoil", [{"eta": "soon"}, {"id": "x" * 300}, {"expires": "never"}, {"idempotency_key": ""}]
)
def test_what_cannot_be_read_is_left_to_celery_which_says_what_is_wrong(bench, task, plain, spoil):
    plain.send_task("t.later", countdown=60)
    (message,) = bench.messages()
    message.headers |= spoil
    assert not Shelf(bench.pulse).take(task, message)


def test_it_expires_in_the_store_as_it_would_in_the_worker(bench, task, plain):
    sent = plain.send_task("t.later", countdown=60, expires=0.2)
    assert receive(bench, task)
    schedule = Schedule(bench.pulse)
    wait_until(lambda: schedule.look() and bench.record(sent.id).state == State.EXPIRED, what="its expiry")
    assert sent.state == "REVOKED"
    assert bench.messages() == []
