from __future__ import annotations

import os
import signal
import threading
from types import SimpleNamespace

import kombu
import pytest
from celery import signals
from support import is_running, wait_until

from denyut.signals.heartbeat import Heartbeat
from denyut.signals.lifecycle import WorkerLife
from denyut.signals.remote import RemoteHeartbeat
from denyut.tasks import node as node_module
from denyut.tasks.node import current_node
from denyut.tasks.slots import current_block, use_block


@pytest.fixture(autouse=True)
def no_worker(monkeypatch):
    monkeypatch.setattr(node_module, "_current", None)
    yield
    block = current_block()
    use_block(None)
    if block is not None:
        block.close()


@pytest.fixture
def make_life(pulse):
    made = []

    def make(**conf) -> WorkerLife:
        made.append(WorkerLife(pulse(denyut_lease_ttl=0.9, **conf)))
        return made[-1]

    yield make
    for life in made:
        life.stop()
        if life._wake is not None:
            life._wake.close()


class Pool:
    """Stands where Celery has the class of its pool."""


class Worker(SimpleNamespace):
    """Stands where Celery sends a worker, or its consumer."""

    __hash__ = object.__hash__


def worker_of(life, **more):
    fields = {"app": life.pulse.app, "hostname": "w@host", "pool_cls": Pool, "concurrency": 2}
    return Worker(**fields | more)


def threads() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("denyut-")}


def test_a_starting_worker_of_the_app_gets_slots_and_a_name(pulse):
    made = pulse()
    signals.worker_init.send(sender=worker_of(SimpleNamespace(pulse=made)))
    assert current_block().capacity == 4096
    assert current_node().name == "w@host"
    assert current_node().pid == os.getpid()


def test_a_worker_has_a_relay_for_each_database_with_an_outbox(make_life, tmp_path):
    life = make_life(denyut_outbox_url=[f"sqlite:///{tmp_path}/{name}.db" for name in "ab"])
    worker = worker_of(life)
    life.on_init(sender=worker)
    life.on_started(worker)
    relays = list(life.relays)
    assert [relay.place.shown[-4:] for relay in relays] == ["a.db", "b.db"]
    assert all(relay._thread.is_alive() for relay in relays)
    life.stop()
    assert "denyut-relay" not in threads()


def test_a_worker_does_not_start_if_a_database_with_an_outbox_cannot_be_one(make_life):
    life = make_life(denyut_outbox_url="django://nowhere")
    with pytest.raises(SystemExit, match="this worker cannot start: denyut_outbox_url='django://nowhere'"):
        life.on_init(sender=worker_of(life))


def test_a_worker_of_another_app_gets_nothing(make_life, pulse):
    life = make_life()
    life.on_init(sender=worker_of(SimpleNamespace(pulse=pulse())))
    life.on_started(worker_of(life))
    assert current_block() is None
    assert life.heartbeat is None


def test_a_bad_setting_stops_the_worker_with_its_message(make_life):
    life = make_life()
    life.pulse.app.conf.denyut_lease_ttl = 0.1
    life.pulse.__dict__.pop("settings", None)
    with pytest.raises(SystemExit, match=r"this worker cannot start: .*denyut_lease_ttl=0\.1"):
        life.on_init(sender=worker_of(life))
    life.pulse.app.conf.denyut_lease_ttl = 0.9  # the fixture still wants the store closed


def test_memory_that_is_not_to_be_had_stops_the_worker(make_life, monkeypatch):
    def refuse(_: str) -> int:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "memfd_create", refuse)
    life = make_life()
    with pytest.raises(SystemExit, match="Too many open files"):
        life.on_init(sender=worker_of(life))


def test_a_worker_that_is_not_told_where_its_jobs_are_does_not_start(make_life):
    life = make_life(broker_url="memory://")
    with pytest.raises(SystemExit, match=r"cannot start: the broker memory:.*denyut_redis_url"):
        life.on_init(sender=worker_of(life))


def test_pool_processes_that_are_not_forked_are_refused(make_life):
    life = make_life()
    with pytest.raises(SystemExit, match=r"worker_pool_start_method='spawn'.*use 'fork'"):
        life.on_init(sender=worker_of(life, pool_start_method="spawn", pool_cls="prefork"))
    life.on_init(sender=worker_of(life, pool_start_method="spawn", pool_cls="solo"))


def test_a_pool_process_takes_its_slot_as_it_starts(make_life, fork):
    life = make_life()
    life.on_init(sender=worker_of(life))
    pid = fork(life.on_process_init)
    wait_until(lambda: [p for _, _, p in current_block().lives()] == [pid], what="the slot to be taken")


def test_a_pool_process_does_not_outlive_the_worker(make_life):
    life = make_life()
    reader, writer = os.pipe()
    main = os.fork()
    if main == 0:
        life.on_init(sender=worker_of(life))
        child = os.fork()
        if child == 0:
            life.on_process_init()
            os.write(writer, f"{os.getpid()}\n".encode())
        signal.pause()
        os._exit(1)
    child = int(os.read(reader, 20))
    os.kill(main, signal.SIGKILL)
    os.waitpid(main, 0)
    wait_until(lambda: not is_running(child), what="the pool process to end")
    os.close(reader)
    os.close(writer)


def test_the_main_process_of_a_solo_pool_is_no_pool_process(make_life):
    life = make_life()
    life.on_init(sender=worker_of(life))
    life.on_process_init()
    assert list(current_block().lives()) == []


def test_a_ready_worker_beats_and_a_stopped_one_does_not(make_life):
    life = make_life()
    life.on_init(sender=worker_of(life))
    life.on_started(life._worker)
    life.on_started(life._worker)
    assert threads() == {"denyut-heartbeat", "denyut-handover", "denyut-recovery", "denyut-schedule"}
    assert life.heartbeat.completed.wait(20)
    key = life.pulse.keys.worker(current_node().owner)
    seen = life.pulse.store.client.hgetall(key)
    assert seen[b"name"] == b"w@host"
    assert (seen[b"pool"], seen[b"concurrency"]) == (b"test_lifecycle", b"2")
    life.on_shutdown(sender=life._worker)
    assert threads() == set()
    assert life.pulse.store.client.exists(key) == 0


@pytest.mark.parametrize(
    ("pool", "where", "kind"),
    [
        ("prefork", "auto", Heartbeat),
        ("prefork", "process", RemoteHeartbeat),
        ("solo", "auto", RemoteHeartbeat),
        ("threads", "auto", RemoteHeartbeat),
        ("solo", "thread", Heartbeat),
    ],
)
def test_pool_and_setting_decide_where_the_heartbeat_runs(make_life, pool, where, kind):
    life = make_life(denyut_heartbeat=where)
    life.on_init(sender=worker_of(life, pool_cls=pool))
    life.on_started(life._worker)
    assert type(life.heartbeat) is kind
    assert life.heartbeat.completed.wait(20)


def test_a_heartbeat_that_greenlets_would_starve_is_refused(make_life):
    life = make_life(denyut_heartbeat="thread")
    with pytest.raises(SystemExit, match="denyut_heartbeat='thread': with the pool gevent"):
        life.on_init(sender=worker_of(life, pool_cls="gevent"))


def test_a_worker_that_says_it_is_down_while_a_job_runs_beats_on(make_life):
    life = make_life()
    life.on_init(sender=worker_of(life))
    life.on_started(life._worker)
    slot = current_block().slot(0)
    slot.begin(job_id="j", task="t", partition=0, fence=1, attempt=1, owner="o")
    life.on_shutdown(sender=life._worker)
    assert "denyut-heartbeat" in threads()
    slot.end()
    life.on_shutdown(sender=object())
    assert "denyut-heartbeat" in threads()
    life.on_shutdown(sender=life._worker)
    assert threads() == set()


def test_a_forked_process_cannot_stop_its_parents_threads(make_life):
    life = make_life()
    life.on_init(sender=worker_of(life))
    life.on_started(life._worker)
    pid = os.fork()
    if pid == 0:
        try:
            life.stop()
        finally:
            os._exit(0 if life.heartbeat is not None else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert life.heartbeat.completed.wait(20)


def test_the_job_of_a_dead_pool_process_is_handed_over_and_then_the_pool_is_told(
    make_life, fork, monkeypatch
):
    told = []
    life = make_life()
    hub = SimpleNamespace(call_soon=told.append)
    life.on_init(sender=worker_of(life))
    life._worker.consumer = SimpleNamespace(hub=hub)
    life._worker.pool = SimpleNamespace(_pool=SimpleNamespace(maintain_pool="maintain"))
    life.on_started(life._worker)
    monkeypatch.setattr(life.handover, "_recover", lambda job: told.append(job.job_id))
    job = {"job_id": "j", "task": "t", "partition": 0, "fence": 1, "attempt": 1, "owner": "o"}
    pid = fork(lambda: (life.on_process_init(), current_block().slot(0).begin(**job)))
    wait_until(lambda: current_block().read(0), what="the job to begin")
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: len(told) == 2, what="the handover")
    assert told == ["j", "maintain"]


def test_the_pool_is_not_told_from_another_thread_where_that_is_not_safe(make_life, monkeypatch):
    life = make_life()
    life.on_init(sender=worker_of(life))
    hub = SimpleNamespace(call_soon=lambda _: pytest.fail("not thread-safe before kombu 5.7"))
    life._worker.consumer = SimpleNamespace(hub=hub)
    life._worker.pool = SimpleNamespace(_pool=SimpleNamespace(maintain_pool="maintain"))
    monkeypatch.setattr(kombu, "VERSION", (5, 6, 2))
    life._nudge_pool()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize(
    ("part", "step"),
    [("heartbeat", "_beat"), ("recovery", "step"), ("handover", "_recover"), ("schedule", "step")],
)
def test_a_thread_that_dies_in_a_worker_is_started_again(make_life, monkeypatch, part, step):
    life = make_life(denyut_recovery_interval=0.05, denyut_heartbeat="thread")
    worker = worker_of(life)
    life.on_init(sender=worker)
    life.on_started(worker)
    service = getattr(life, part)
    victim, real = service._thread, getattr(service, step)

    def die(*_):
        monkeypatch.setattr(service, step, real)
        raise SystemExit  # what no thread of ours catches

    monkeypatch.setattr(service, step, die)
    if part == "handover":
        service.give(SimpleNamespace(job_id="j", pid=1, attempt=1))
    wait_until(lambda: not victim.is_alive(), timeout=20, what="its death")
    wait_until(lambda: service._thread is not victim and service._thread.is_alive(), what="its second life")


def test_a_worker_with_a_job_store_without_tables_does_not_start_and_names_the_command(make_life, tmp_path):
    life = make_life(denyut_database_url=f"sqlite:///{tmp_path}/jobs.db")
    with pytest.raises(
        SystemExit, match=r"cannot start: the job store has no tables; make them: .*denyut migrate"
    ):
        life.on_init(sender=worker_of(life))
    life.pulse.database.create()
    life.on_init(sender=worker_of(life))
