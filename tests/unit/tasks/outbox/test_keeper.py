"""While a keeper is active nothing is sent, and what would have been is kept as it would have been."""

from __future__ import annotations

from threading import Thread

import pytest
from celery.signals import before_task_publish

from denyut.errors import NotKeepable
from denyut.tasks.outbox.keeper import active_keeper, keeping


def test_what_is_sent_is_kept_with_its_message_and_nothing_is_recorded(lite):
    lite.bench.app.conf.task_send_sent_event = True
    with keeping(lite.pulse) as keeper:
        result = lite.note.apply_async((1,), priority=4, headers={"mine": "x"})
    [(intent, envelope)] = keeper.kept
    assert intent.id == result.id == envelope.headers["id"]
    assert (envelope.headers["mine"], envelope.properties["priority"]) == ("x", 4)
    assert envelope.decode(["json"])[0] == [1]
    assert lite.bench.record(result.id) is None
    assert lite.bench.messages() == []


def test_it_ends_with_the_block_also_by_an_error_and_is_of_this_thread_alone(lite):
    seen = []

    def fail() -> None:
        with keeping(lite.pulse):
            thread = Thread(target=lambda: seen.append(active_keeper()))
            thread.start()
            thread.join()
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fail()
    assert seen == [None]
    assert active_keeper() is None
    lite.note.delay(2)
    assert lite.bench.drain() == 1


def test_what_others_add_to_a_message_at_its_publishing_is_kept_too(lite):
    def add(headers=None, **_):
        headers["trace"] = "t"

    before_task_publish.connect(add)
    try:
        with keeping(lite.pulse) as keeper:
            lite.note.delay(1)
    finally:
        before_task_publish.disconnect(add)
    assert keeper.kept[0][1].headers["trace"] == "t"


def test_the_running_job_itself_cannot_be_kept(lite):
    @lite.bench.task(name="t.again", bind=True)
    def again(self):
        with keeping(lite.pulse):
            lite.note.apply_async((1,), task_id=self.request.id)

    result = again.delay()
    lite.bench.drain()
    with pytest.raises(NotKeepable, match="is the running job itself"):
        result.get(timeout=5)
