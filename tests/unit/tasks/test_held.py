from __future__ import annotations

from threading import Thread

from denyut.tasks import held as module
from denyut.tasks.held import Held, held


def test_a_message_is_held_from_its_receipt_until_it_is_started():
    messages = Held()
    messages.add("a")
    assert messages.snapshot_older_than(0) == ["a"]
    messages.discard("a")
    assert messages.snapshot_older_than(0) == []


def test_a_copy_of_a_message_is_held_until_both_are_gone():
    messages = Held()
    messages.add("a")
    messages.add("a")
    messages.discard("a")
    assert messages.snapshot_older_than(0) == ["a"]
    messages.discard("a")
    assert len(messages) == 0


def test_discarding_what_is_not_held_does_nothing():
    messages = Held()
    messages.discard("a")
    messages.add("a")
    assert len(messages) == 1


def test_only_messages_held_for_long_enough_are_reported(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(module, "monotonic", lambda: now[0])
    messages = Held()
    messages.add("old")
    now[0] += 2
    messages.add("new")
    assert messages.snapshot_older_than(1.5) == ["old"]
    assert messages.snapshot_older_than(0) == ["old", "new"]


def test_threads_that_add_and_discard_at_once_leave_nothing_behind():
    messages = Held()

    def churn(name: str) -> None:
        for i in range(2000):
            messages.add(f"{name}{i % 7}")
            messages.snapshot_older_than(0)
            messages.discard(f"{name}{i % 7}")

    threads = [Thread(target=churn, args=(name,)) for name in "aab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(messages) == 0


def test_a_discard_from_a_garbage_collection_cannot_block():
    messages = Held()
    messages.add("a")
    messages.add("b")
    with messages._lock:  # the collection came in the middle of another call
        messages.discard("a")
    assert messages.snapshot_older_than(0) == ["b"]


def test_a_process_has_one_list():
    assert held() is held()


def test_a_finalizer_may_discard_while_the_same_thread_is_inside():
    mine = Held()
    mine.add("j")
    with mine._lock:
        mine.discard("j")
    assert mine.snapshot_older_than(0) == []
