"""The harness itself: pytest-celery's own setup on processes."""

from __future__ import annotations

from celery import chord, group
from pytest_celery import CeleryTestSetup
from pytest_celery.vendors.worker.tasks import add, identity, sleep, xsum
from support import children, wait_until


def test_a_task_a_group_and_a_chord_run_on_the_setup_of_pytest_celery(celery_setup: CeleryTestSetup):
    assert celery_setup.ready(ping=True, control=True, docker=True)
    assert len(celery_setup) == 3
    queue = celery_setup.worker.worker_queue
    assert add.s(1, 2).apply_async(queue=queue).get(timeout=20) == 3
    assert group(add.si(i, i) for i in range(5)).apply_async(queue=queue).get(timeout=20) == [0, 2, 4, 6, 8]
    body = chord([identity.si(i).set(queue=queue) for i in range(5)], xsum.s().set(queue=queue))
    assert body.apply_async().get(timeout=20) == 10
    celery_setup.worker.assert_log_exists("succeeded")
    assert celery_setup.worker.hostname() in celery_setup.worker.logs()


def test_a_worker_of_the_setup_can_be_killed_and_restarted(celery_setup: CeleryTestSetup):
    worker = celery_setup.worker
    pid = worker.container.node.pid
    sleep.s(30).apply_async(queue=worker.worker_queue)
    worker.wait_for_log("received")
    worker.kill()
    assert worker.container.status == "exited"
    assert pid not in children()
    worker.restart()
    assert add.s(2, 2).apply_async(queue=worker.worker_queue).get(timeout=20) == 4


def test_a_broker_of_the_setup_can_be_killed_and_restarted(celery_setup: CeleryTestSetup):
    queue = celery_setup.worker.worker_queue
    assert add.s(1, 1).apply_async(queue=queue).get(timeout=20) == 2
    celery_setup.broker.kill()
    assert celery_setup.broker.container.status == "exited"
    celery_setup.broker.restart()
    assert add.s(2, 1).apply_async(queue=queue).get(timeout=20) == 3


def test_a_process_of_the_worker_can_be_asked_for(celery_setup: CeleryTestSetup):
    found = celery_setup.worker.get_running_processes_info(["pid", "cmdline"])
    pids = {each["pid"] for each in found}
    assert celery_setup.worker.container.node.pid in pids


def test_a_warm_shutdown_ends_the_worker(celery_setup: CeleryTestSetup):
    worker = celery_setup.worker
    worker.kill(signal="SIGTERM")
    wait_until(lambda: worker.container.status == "exited", timeout=15, what="the worker to end")
    worker.assert_log_exists("Warm shutdown")
