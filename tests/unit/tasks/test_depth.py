from __future__ import annotations

from denyut.tasks.depth import queue_depth


def test_it_counts_ready_messages_of_all_priorities(bench):
    @bench.task(name="t.noop")
    def noop():
        pass

    for priority in (0, 3, 6, 9):
        noop.apply_async(priority=priority)
    assert queue_depth(bench.app, bench.app.conf.task_default_queue) == 4


def test_a_queue_that_does_not_exist_is_empty(bench):
    assert queue_depth(bench.app, "nowhere") == 0
