"""The request that a kept message makes."""

from __future__ import annotations

from denyut.tasks.context import context_of
from denyut.tasks.envelope import Envelope


def test_a_kept_message_makes_the_request_that_a_worker_would_see(bench):
    @bench.task(name="t.add")
    def add(a, b):
        return a + b

    link = add.si(1, 1)
    sent = add.apply_async((1,), {"b": 2}, countdown=60, link=link)
    record = bench.pulse.keys.job(sent.id).record
    context = context_of(bench.app, Envelope.load(bench.pulse.store.client.hget(record, "msg")))
    assert (context.id, context.task, list(context.args), context.kwargs) == (sent.id, "t.add", [1], {"b": 2})
    assert context.callbacks[0]["task"] == "t.add"
    assert context.delivery_info["routing_key"] == bench.app.conf.task_default_queue
