"""Letting go of a copy leaves the owner's entry at the broker."""

from __future__ import annotations

from kombu import Connection

from denyut.tasks.forget import forget


class Request:
    acknowledged = False

    def __init__(self, message):
        self.message = message

    def acknowledge(self):
        self.message.ack()
        self.acknowledged = True


def test_on_redis_the_owners_entry_stays_and_the_prefetch_window_is_freed(bench, valkey):
    @bench.task(name="t.noop")
    def noop():
        pass

    noop.delay()
    with Connection(bench.app.conf.broker_url) as connection:
        channel = connection.channel()
        channel.basic_qos(0, 1, False)
        message = channel.basic_get(bench.app.conf.task_default_queue)
        assert not channel.qos.can_consume()
        request = Request(message)
        forget(request)
        assert request.acknowledged
        assert channel.qos.can_consume()
        assert valkey.hexists("unacked", message.delivery_tag)
        forget(request)  # a second time does nothing
        channel.qos.restore_unacked_once = lambda *_, **__: None


def test_where_copies_have_entries_of_their_own_it_acknowledges():
    with Connection("memory://") as connection:
        queue = connection.SimpleQueue("q")
        queue.put("x")
        message = queue.get(timeout=1)
        request = Request(message)
        forget(request)
        assert request.acknowledged
        assert not queue.qsize()
        queue.close()
