"""The queues that concern an app."""

from __future__ import annotations

from denyut.monitoring.queues import known_queues


def test_the_queues_of_the_app_and_of_the_median_are_known_once_each(make_desk):
    pulse = make_desk(task_default_queue="mine", denyut_median_shards=2).pulse
    assert known_queues(pulse) == ["mine", "median.0", "median.1"]
    pulse.app.amqp.queues.add("median.1")
    assert known_queues(pulse) == ["mine", "median.1", "median.0"]
