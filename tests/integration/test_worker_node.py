from __future__ import annotations

import os
import signal

from support import is_running, wait_until


def test_a_real_worker_runs_a_plain_task_in_a_pool_process_of_its_own(worker):
    node = worker("apps.plain")
    assert node.module.add.delay(2, 3).get(timeout=10) == 5
    child = node.module.pid.delay().get(timeout=10)
    assert child in node.pool_pids
    assert child != node.pid != os.getpid()


def test_a_killed_worker_takes_its_pool_along_and_comes_back(worker):
    node = worker("apps.plain")
    pool = node.pool_pids
    assert len(pool) == 2
    node.kill(signal.SIGKILL)
    wait_until(lambda: not any(map(is_running, pool)), what="the pool to die with its parent")
    node.start()
    assert node.module.add.delay(1, 1).get(timeout=10) == 2


def test_a_whole_node_can_die_at_once(worker):
    node = worker("apps.plain", concurrency=1)
    node.module.sleep.delay(30)
    wait_until(lambda: "received" in node.logs(), what="the task to be received")
    node.kill_all()
    assert not node.running


def test_a_worker_consumes_the_queues_it_is_told_and_the_pool_it_is_told(worker):
    node = worker("apps.plain", queues=["a", "b"], pool="solo")
    assert node.module.pid.apply_async(queue="b").get(timeout=10) == node.pid


def test_a_worker_outlives_its_broker(worker, restartable_valkey):
    node = worker("apps.plain", server=restartable_valkey)
    assert node.module.add.delay(1, 2).get(timeout=10) == 3
    restartable_valkey.kill()
    restartable_valkey.start()
    assert node.module.add.delay(3, 4).get(timeout=20) == 7


def test_apps_of_two_tests_do_not_share_a_server(worker, restartable_valkey, valkey_server):
    here, there = (
        worker("apps.plain", start=False),
        worker("apps.plain", server=restartable_valkey, start=False),
    )
    assert here.app.conf.broker_url == valkey_server.url
    assert there.app.conf.broker_url == restartable_valkey.url
