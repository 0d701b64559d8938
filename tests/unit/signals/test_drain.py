from __future__ import annotations

import threading
from types import SimpleNamespace

from denyut.signals.drain import Drain


def job(fence):
    return SimpleNamespace(fence=fence)


def test_what_was_asked_is_told_with_the_next_beat_and_forgotten_when_it_has_ended():
    drain = Drain()
    assert not drain.pending
    drain.ask([1, 2])
    assert drain.pending
    told = drain.begin([job(2), job(3)])
    assert not drain.pending
    assert [told(job(2)), told(job(3)), told(job(1))] == [True, False, False]
    assert not drain.begin([job(3)])(job(2)), "a fence is never used again"


def test_a_worker_that_ends_tells_of_all_jobs_also_those_to_come():
    drain = Drain()
    drain.ask(everything=True)
    assert drain.begin([])(job(7))
    assert drain.begin([])(job(8))


def test_who_waits_is_let_go_by_the_beat_that_has_told_and_by_no_earlier_one():
    drain = Drain()
    drain.begin([job(1)])
    asked = drain.ask([1])
    drain.end()  # of the beat that had begun before
    assert not drain.wait(asked, 0.01)
    waited = []
    thread = threading.Thread(target=lambda: waited.append(drain.wait(asked, 10)))
    thread.start()
    drain.begin([job(1)])
    drain.end()
    thread.join()
    assert waited == [True]
