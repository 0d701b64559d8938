"""A message that no worker decodes ends its job, and is not published for ever."""

from __future__ import annotations

import pytest
from celery.contrib.testing.worker import start_worker
from celery.exceptions import InvalidTaskError
from kombu.exceptions import ContentDisallowed
from support import wait_until

from denyut.errors import UnreadableMessage
from denyut.states import State
from denyut.tasks.record import FIELDS, JobRecord
from denyut.tasks.recover import recover
from denyut.tasks.undecodable import end_undecodable


def record(pulse, job_id):
    return JobRecord.from_redis(job_id, pulse.store.client.hmget(pulse.keys.job(job_id).record, *FIELDS))


@pytest.fixture
def noop(bench):
    @bench.task(name="t.noop")
    def noop(*_):
        return 1

    bench.app.finalize()
    return bench.app.tasks["t.noop"]


def test_whoever_waits_is_told_by_a_worker_that_does_not_accept_the_serializer(pulse):
    made = pulse()

    @made.app.task(name="t.noop", shared=False)
    def noop(*_):
        return 1

    with start_worker(made.app, pool="solo", perform_ping_check=False, shutdown_timeout=30):
        result = noop.apply_async(({1},), serializer="pickle")
        with pytest.raises(Exception, match="accept_content"):
            result.get(timeout=20)
        assert noop.delay(1).get(timeout=20) == 1, "the worker goes on"
    found = wait_until(lambda: (r := record(made, result.id)) and r.settled and r, what="its end")
    assert found.state == State.FAILED
    assert found.error[0] == "UnreadableMessage"
    assert recover(made, result.id, "lost") == "NOTHING"
    assert [letter.id for letter in made.jobs.dead().letters] == [result.id]


def test_a_copy_of_a_job_that_has_ended_changes_nothing(bench, noop):
    result = noop.delay(1)
    [message] = bench.messages()
    bench.run(message)
    assert not end_undecodable(bench.pulse, noop, message, ContentDisallowed("no"))
    assert result.get(timeout=5) == 1


def test_of_a_client_without_denyut_nothing_is_known(bench, noop):
    noop.delay(1)
    [message] = bench.messages()
    del message.headers["denyut"]
    assert not end_undecodable(bench.pulse, noop, message, InvalidTaskError("no"))


def test_where_redis_cannot_be_reached_it_is_met_again(make_bench, restartable_valkey, caplog):
    bench = make_bench(denyut_redis_url=restartable_valkey.url, denyut_redis_timeout=0.3)

    @bench.task(name="t.noop")
    def noop(*_):
        return 1

    result = noop.delay(1)
    [message] = bench.messages()
    restartable_valkey.kill()
    assert not end_undecodable(bench.pulse, noop, message, ContentDisallowed("no"))
    assert "could not be ended now" in caplog.text
    restartable_valkey.start()
    assert end_undecodable(bench.pulse, noop, message, ContentDisallowed("no"))
    with pytest.raises(UnreadableMessage):
        result.get(timeout=5)
