from __future__ import annotations

import pytest
from celery import Celery
from hypothesis import given
from hypothesis import strategies as st

from denyut.tasks.envelope import HEADER, Envelope, Stamp, rebuild

bodies = st.text() | st.binary()


@given(bodies, st.dictionaries(st.text(), st.none() | st.integers() | st.text(), max_size=3))
def test_an_envelope_comes_back_as_it_was(body, headers):
    headers.pop(HEADER, None)
    one = Envelope(body, "application/json", "utf-8", headers, {"priority": 3}, "", "q")
    assert Envelope.load(one.dump()) == one


def test_the_stamp_is_not_kept_it_is_new_at_every_publish():
    one = Envelope("[]", "application/json", "utf-8", {"id": "x", HEADER: {"gen": 1}}, {}, "", "q")
    assert HEADER not in Envelope.load(one.dump()).headers


@pytest.mark.parametrize(
    "raw", [None, "x", 7, [], {"gen": "a"}, {"gen": None}, {"gen": 1, "marker": "m", "at": "z"}]
)
def test_a_header_that_is_no_stamp_is_that_of_a_plain_client(raw):
    assert Stamp.of({HEADER: raw}) == Stamp()


def test_a_published_envelope_is_the_message_that_was_sent(bench):
    @bench.task(name="t.noop")
    def noop(*args, **kwargs):
        return args

    result = noop.apply_async((1,), {"a": "ü"}, link=noop.si(2), priority=0)
    [first] = bench.messages()
    text = bench.pulse.store.client.hget(bench.pulse.keys.job(result.id).record, "msg")
    Envelope.load(text).publish(bench.app, Stamp(gen=9, marker="m", at=1))
    [second] = bench.messages()
    assert second.payload == first.payload
    assert second.headers[HEADER] == {"gen": 9, "marker": "m", "at": 1}
    same = [k for k in first.headers if k != HEADER]
    assert {k: second.headers[k] for k in same} == {k: first.headers[k] for k in same}


def test_a_rebuilt_envelope_runs_like_the_original(bench):
    runs = []

    @bench.task(name="t.noop")
    def noop(*args, **kwargs):
        runs.append((args, kwargs))

    noop.apply_async((1,), {"a": 2}, link=noop.si("callback"))
    [message] = bench.messages()
    args, kwargs, embed = message.payload
    request = {**message.headers, "properties": message.properties, "delivery_info": message.delivery_info}
    request |= {"args": args, "kwargs": kwargs, **embed}
    again = rebuild(bench.app, "json", request)
    assert again.decode(["json"]) == (args, kwargs, embed)
    assert again.queue == bench.app.conf.task_default_queue
    assert again.headers["id"] == message.headers["id"]


@pytest.mark.parametrize("serializer", ["json", "pickle"])
@pytest.mark.parametrize("compression", [None, "zlib"])
def test_a_received_message_keeps_all_that_it_takes_to_publish_it_again(bench, serializer, compression):
    plain = Celery("plain", broker=bench.app.conf.broker_url, set_as_current=False)
    plain.conf.task_default_queue = bench.app.conf.task_default_queue
    sent = plain.send_task("t", (1, "é"), priority=3, serializer=serializer, compression=compression)
    plain.close()
    (message,) = bench.messages()
    kept = Envelope.load(Envelope.received(message).dump())
    assert list(kept.decode(["json", "pickle"])[0]) == [1, "é"]
    assert (kept.headers["id"], kept.properties["priority"]) == (sent.id, 3)
    assert kept.queue == bench.app.conf.task_default_queue
