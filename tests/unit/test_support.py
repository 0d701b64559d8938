from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest
from nodes.valkey import PrivateValkey
from pool_matrix import rows
from support import children, is_running, missing, no_leaks, wait_until


def test_waiting_returns_the_first_true_value():
    values = iter([0, None, "there"])
    assert wait_until(lambda: next(values), timeout=5) == "there"


def test_waiting_in_vain_fails_and_names_what_was_waited_for():
    with pytest.raises(pytest.fail.Exception, match=r"waited 0\.05 s in vain for: the moon"):
        wait_until(lambda: False, timeout=0.05, what="the moon")


def test_a_missing_service_is_a_skip_at_home_and_a_failure_in_ci(monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="postgres is not available; install it"):
        missing("postgres", "install it")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="a missing service is a failure"):
        missing("postgres", "install it")


def test_a_thread_left_behind_is_named():
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait, name="straggler", daemon=True)
    with pytest.raises(pytest.fail.Exception, match="thread 'straggler'"), no_leaks(timeout=0.1):
        thread.start()
    stop.set()
    thread.join()


def test_a_process_left_behind_is_named_even_if_its_parent_is_gone():
    script = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'input()'], stdin=0)"
    read, write = os.pipe()
    with pytest.raises(pytest.fail.Exception, match=r"process \d+ \(.*input"), no_leaks(timeout=0.1):
        subprocess.run([sys.executable, "-c", script], stdin=read, check=True)
    orphan = next(p.pid for p in children().values() if "input()" in p.command)
    os.kill(orphan, signal.SIGKILL)
    os.close(read)
    os.close(write)
    wait_until(lambda: not is_running(orphan), what="the orphan to end")


def test_a_test_gets_an_empty_database(valkey):
    assert valkey.dbsize() == 0
    valkey.set("left", "over")


def test_the_next_test_gets_an_empty_database_too(valkey):
    assert valkey.dbsize() == 0


def test_a_killed_server_comes_back_on_its_port_with_its_data(restartable_valkey: PrivateValkey):
    port, pid = restartable_valkey.port, restartable_valkey.pid
    with restartable_valkey.client() as client:
        client.set("a", "1")
        restartable_valkey.kill()
        assert not is_running(pid)
        restartable_valkey.start()
        assert restartable_valkey.port == port
        assert client.get("a") == b"1"


def test_the_server_is_reached_by_socket_as_well(valkey_server: PrivateValkey):
    from denyut.store import connect

    with connect(valkey_server.unix_url, timeout=5) as client:
        assert client.ping()


def test_the_table_of_pools_has_what_came_of_each_situation():
    outcomes = {
        "passed": [
            "tests/integration/test_pools.py::test_a_lease_is_kept_on_every_pool[solo]",
            "tests/integration/test_pools.py::test_a_lease_is_kept_on_every_pool[prefork process]",
            "tests/integration/test_watchdog.py::test_it_runs_again_on_every_pool[threads-busy]",
            "tests/unit/test_keys.py::test_another[solo]",
        ],
        "failed": ["tests/integration/test_pools.py::test_a_lease_is_kept_on_every_pool[gevent]"],
    }
    head, *lines = rows(outcomes)
    assert head.split() == ["prefork", "prefork", "process", "solo", "threads", "gevent", "eventlet"]
    assert [line.split()[-1] for line in lines] == ["NO", "yes"]
    assert lines[0].startswith("a lease is kept ")
    assert rows({"passed": ["tests/unit/test_keys.py::test_another[solo]"]}) == []
