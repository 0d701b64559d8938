"""Jobs with every serializer that Celery accepts and this environment has."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.util import find_spec

import pytest
from celery import Celery, _state, chord
from unit.tasks.dying import DiedError

from denyut.states import State
from denyut.tasks.recover import recover

NEEDS = {"json": "json", "pickle": "pickle", "yaml": "yaml", "msgpack": "msgpack"}
SERIALIZERS = [
    pytest.param(
        name, marks=pytest.mark.skipif(find_spec(module) is None, reason=f"the module {module} is optional")
    )
    for name, module in NEEDS.items()
]


@pytest.fixture
def make(make_bench):
    before = _state._tls.current_app

    def with_serializer(name, **conf):
        bench = make_bench(
            task_serializer=name, result_serializer=name, accept_content=[name, "json"], **conf
        )
        bench.app.set_current()
        return bench

    yield with_serializer
    _state._tls.current_app = before


@pytest.mark.parametrize("serializer", SERIALIZERS)
@pytest.mark.parametrize("compression", [None, "zlib"])
def test_a_job_its_retry_its_recovery_and_its_replay_keep_their_arguments(make, serializer, compression):
    bench = make(serializer, task_compression=compression)
    seen = []

    @bench.task(name="t.echo", bind=True, max_retries=1)
    def echo(self, value, *, more):
        seen.append((value, more))
        if self.request.retries == 0:
            raise self.retry(countdown=0)
        return {"value": value, "more": more}

    given = {"text": "ä", "list": [1, 2.5, None, True]}
    result = echo.apply_async((given,), {"more": "x"})
    bench.drain()
    assert result.get(timeout=5) == {"value": given, "more": "x"}
    assert seen == [(given, "x")] * 2
    assert bench.record(result.id).state == State.COMPLETED


@pytest.mark.parametrize("serializer", SERIALIZERS)
def test_a_crashed_job_is_published_again_with_its_own_serializer(make, serializer):
    bench = make(serializer)

    @bench.task(name="t.echo")
    def echo(value):
        return value

    result = echo.delay([1, "ä"])
    bench.messages()  # lost by the broker
    recover(bench.pulse, result.id, "lost")
    [again] = bench.messages()
    assert again.payload[0] in (([1, "ä"],), [[1, "ä"]])
    bench.run(again)
    assert result.get(timeout=5) == [1, "ä"]


# YAML carries no signatures, hence no chords: for stock Celery neither.
@pytest.mark.parametrize("serializer", [each for each in SERIALIZERS if each.values != ("yaml",)])
def test_a_key_and_a_chord_work_with_it(make, serializer):
    bench = make(serializer)

    @bench.task(name="t.one", idempotency_key="one:{n}")
    def one(n):
        return n

    @bench.task(name="t.total")
    def total(parts):
        return sum(parts)

    assert one.delay(7).id == one.delay(7).id
    result = chord([one.s(1), one.s(2)], total.s()).apply_async()
    bench.drain()
    assert result.get(timeout=5) == 3


def test_what_only_pickle_can_carry_comes_through(make):
    bench = make("pickle")

    @bench.task(name="t.echo")
    def echo(value):
        return value

    value = {"when": datetime.now(UTC), "set": {1, 2}, "complex": 1 + 2j}
    result = echo.delay(value)
    bench.drain()
    assert result.get(timeout=5) == value


@pytest.mark.parametrize("compression", [None, "zlib"])
def test_a_plain_clients_message_survives_a_crash_with_what_only_its_serializer_carries(
    make_bench, compression
):
    bench = make_bench(accept_content=["json", "pickle"])
    runs = []

    @bench.task(name="t.count")
    def count(values):
        runs.append(values)
        if len(runs) == 1:
            raise DiedError
        return len(values)

    plain = Celery("plain", broker=bench.app.conf.broker_url, set_as_current=False)
    plain.conf.task_default_queue = bench.app.conf.task_default_queue
    sent = plain.send_task("t.count", ({1, 2},), serializer="pickle", compression=compression)
    [message] = bench.messages()
    with pytest.raises(DiedError):
        bench.run(message)
    bench.crash(sent.id)
    recover(bench.pulse, sent.id, "lapsed")
    bench.drain()
    assert runs == [{1, 2}, {1, 2}]
    assert bench.record(sent.id).state == State.COMPLETED
    plain.close()


def test_a_serializer_may_be_chosen_for_one_call_and_for_one_task(make):
    bench = make("json", result_accept_content=["json", "pickle"])
    bench.app.conf.accept_content = ["json", "pickle"]

    @bench.task(name="t.echo", serializer="pickle")
    def echo(value):
        return sorted(value)

    first, second = echo.delay({2, 1}), echo.apply_async(([3],), serializer="json")
    bench.drain()
    assert (first.get(timeout=5), second.get(timeout=5)) == ([1, 2], [3])
