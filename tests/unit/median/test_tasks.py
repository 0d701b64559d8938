from __future__ import annotations

import logging
import subprocess
import sys
from typing import Any

import pytest
from celery import Celery
from redis.exceptions import ConnectionError as RedisConnectionError

from denyut import Denyut
from denyut.errors import PoisonBatch, StreamDegraded
from denyut.median.columns import check_events
from denyut.median.packing import encode
from denyut.median.routing import APPLY_TASK
from denyut.median.tasks import _declare_on_worker, apply_message
from denyut.tasks.job_task import JobTask


def packed(*events: tuple[float, str]) -> str:
    return encode(check_events(list(events))[0])


def test_every_app_has_the_task_which_is_a_job_and_is_acked_late(pulse: Any) -> None:
    for all_tasks in (True, False):
        task = pulse(all_tasks=all_tasks).app.tasks[APPLY_TASK]
        assert isinstance(task, JobTask)
        assert (task.acks_late, task.ignore_result, task.serializer) == (True, True, "json")
        assert 0 < task.max_retries < 100


def test_the_task_applies_a_batch_and_says_what_it_did(pulse: Any) -> None:
    made = pulse()
    apply = made.app.tasks[APPLY_TASK]
    assert apply("s", packed((1.0, "a"), (2.0, "b"))) == {
        "version": 1, "count": 2, "accepted": 2, "duplicates": 0, "conflicts": 0,
    }  # fmt: skip
    assert apply(stream="s", batch=packed((1.0, "a"), (7.0, "c")))["duplicates"] == 1
    assert made.median.read("s").value == 2.0


@pytest.mark.parametrize(
    ("stream", "batch"),
    [("s", "not base64!"), ("s", None), ("a{b}", packed((1.0, "a"))), (7, packed((1.0, "a")))],
)
def test_a_poison_message_fails_with_a_clear_error_and_the_next_one_is_applied(
    pulse: Any, stream: Any, batch: Any
) -> None:
    made = pulse()
    with pytest.raises(PoisonBatch):
        made.app.tasks[APPLY_TASK](stream, batch)
    assert made.app.tasks[APPLY_TASK]("s", packed((1.0, "a")))["count"] == 1


def test_poison_and_degraded_streams_are_not_tried_again_but_a_lost_connection_is(pulse: Any) -> None:
    task = pulse().app.tasks[APPLY_TASK]
    assert not issubclass(PoisonBatch, task.autoretry_for)
    assert not issubclass(StreamDegraded, task.autoretry_for)
    assert issubclass(RedisConnectionError, task.autoretry_for)


def test_a_message_that_is_delivered_twice_in_a_row_is_not_counted_as_duplicates(pulse: Any) -> None:
    made = pulse()
    first = apply_message(made, "s", packed((1.0, "a")), token="job-1")
    assert apply_message(made, "s", packed((1.0, "a")), token="job-1") == first
    assert made.median.read("s").duplicates == 0


def test_a_conflict_is_logged(pulse: Any, caplog: pytest.LogCaptureFixture) -> None:
    made = pulse()
    apply_message(made, "s", packed((1.0, "a")))
    with caplog.at_level(logging.WARNING):
        apply_message(made, "s", packed((2.0, "a")))
    assert "stream 's': 1 event(s) came again with another value; the first stands" in caplog.text


def test_registering_connects_to_nothing() -> None:
    app = Celery("nowhere", set_as_current=False, broker="redis://127.0.0.1:1/0")
    Denyut(app)
    assert APPLY_TASK in app.tasks
    app.close()


def test_the_median_is_imported_only_by_an_app_that_uses_it() -> None:
    code = "import sys, denyut; sys.exit(any(m.startswith('denyut.median') for m in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_starting_worker_learns_the_median_queues(pulse: Any) -> None:
    made = pulse(denyut_median_shards=2)

    class Starting:
        app = made.app

    _declare_on_worker(instance=Starting())
    assert {"median.0", "median.1"} <= set(made.app.amqp.queues)
    _declare_on_worker(instance=object())  # a worker of an app without Denyut
