"""A message that is too large is refused before anything is written, wherever it comes from."""

from __future__ import annotations

import pytest
from celery import Celery, chain

from denyut.errors import MessageTooLarge
from denyut.states import State

LIMIT = 2048
BIG = "x" * LIMIT


@pytest.fixture
def bench(make_bench):
    return make_bench(denyut_max_message_bytes=LIMIT)


@pytest.fixture
def echo(bench):
    @bench.task(name="t.echo", idempotency_key="k")
    def echo(text=""):
        return len(text)

    return echo


@pytest.mark.parametrize("options", [{}, {"countdown": 60}, {"task_id": "mine"}, {"serializer": "yaml"}])
def test_nothing_is_written_of_a_job_that_is_too_large(bench, echo, valkey, options):
    with pytest.raises(MessageTooLarge, match=r"'t.echo' has a message of 2\d+ bytes, and 2048 are allowed"):
        echo.apply_async((BIG,), **options)
    assert bench.messages() == []
    assert [key for key in valkey.scan_iter() if b":job:" in key or b"schedule" in key] == []


def test_the_key_of_a_refused_job_is_free(bench, echo):
    with pytest.raises(MessageTooLarge):
        echo.delay(BIG)
    assert echo.delay("small").deduplicated is False


def test_the_limit_is_what_is_sent_and_not_how_many_characters(bench, echo):
    assert echo.apply_async((BIG,), compression="zlib").deduplicated is False
    with pytest.raises(MessageTooLarge) as caught:
        echo.apply_async(("é" * (LIMIT // 4),), serializer="yaml")
    assert caught.value.size > LIMIT // 4


def test_a_body_at_the_limit_is_taken(bench, echo):
    with pytest.raises(MessageTooLarge) as caught:
        echo.delay(BIG)
    assert echo.delay("x" * (LIMIT - (caught.value.size - LIMIT))).id


def test_a_retry_that_is_too_large_fails_its_job(bench):
    @bench.task(name="t.grow", bind=True, max_retries=3)
    def grow(self, text):
        raise self.retry(args=(BIG,), countdown=0)

    job = grow.delay("")
    bench.drain()
    assert bench.record(job.id).state == State.FAILED
    with pytest.raises(MessageTooLarge, match="keep the data elsewhere"):
        job.get(timeout=5)


def test_a_callback_that_is_too_large_is_told_as_the_failure_of_the_chain(bench, echo):
    @bench.task(name="t.make")
    def make():
        return BIG

    last = chain(make.s(), echo.s()).apply_async()
    bench.drain()
    with pytest.raises(MessageTooLarge):
        last.parent.get(timeout=5)
    assert bench.messages() == []


def test_what_a_client_without_denyut_has_published_is_run(bench, echo):
    with Celery("plain", broker=bench.app.conf.broker_url, set_as_current=False) as plain:
        plain.conf.task_default_queue = bench.app.conf.task_default_queue
        plain.send_task("t.echo", (BIG,), task_id="p")
    assert bench.drain() == 1
    assert bench.record("p").state == State.COMPLETED
