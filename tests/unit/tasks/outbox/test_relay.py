"""The relay: each row once, in order, soon, and none held up by another, or by a server that is away."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from threading import Thread
from time import monotonic, sleep

import pytest
from nodes.postgres import PrivatePostgres, find_programs
from redis.exceptions import RedisError
from sqlalchemy.exc import OperationalError, SQLAlchemyError
from sqlalchemy.orm import Session
from support import DiedError, wait_until

from denyut import current_job
from denyut.database.outbox_take import drop
from denyut.tasks.effects import create_effects_table
from denyut.tasks.node import new_node
from denyut.tasks.outbox import relay as module
from denyut.tasks.outbox.report import read_told


def enqueue(post, *args, **options):
    with Session(post.engine) as session, session.begin():
        return post.outbox.enqueue(session, post.note.s(*args), **options)


def queue_length(post):
    return post.client.llen(post.bench.app.conf.task_default_queue)


@pytest.fixture
def running():
    """Start relays, each as a worker of its own would; they end with the test."""
    started = []

    def start(*relays):
        new_node("relay@test")
        for each in relays:
            each.start()
            started.append(each)

    yield start
    for each in started:
        each.stop()


# ---- one look ----------------------------------------------------------------------------------------


def test_rows_are_sent_in_the_order_of_their_enqueue_many_in_one_transaction(post, monkeypatch):
    monkeypatch.setattr(module, "BATCH", 4)
    with Session(post.engine) as session, session.begin():
        for n in range(6):
            post.outbox.enqueue(session, post.note.s(n))
    assert [post.relay.look() for _ in range(3)] == [4, 2, 0]
    post.bench.drain()
    assert post.ran == list(range(6))
    assert post.rows() == []


def test_a_job_that_cannot_be_sent_is_tried_again_then_set_aside_and_holds_nobody_up(post, monkeypatch):
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.0)
    enqueue(post, "bad")
    post.change(post.rows()[0].seq, message="nonsense")
    for n in range(module.TRIES):
        enqueue(post, n)
        post.relay.look()
        [row] = post.rows()
        assert row.attempts == n + 1
    assert row.try_at is None
    assert row.error.startswith("UnreadableMessage: ")
    assert post.relay.look() == 0
    post.bench.drain()
    assert post.ran == list(range(module.TRIES))
    assert read_told(post.pulse, post.client)[0].refused == module.TRIES


def test_what_waits_is_counted_now_and_then_also_while_there_is_much_to_do(lite, monkeypatch):
    monkeypatch.setattr(module, "BATCH", 1)
    enqueue(lite, 1)
    enqueue(lite, 2)
    lite.relay.look()
    found = read_told(lite.pulse, lite.client)[0]
    assert (found.waiting, found.sent) == (1, 1)
    lite.relay.look()
    assert read_told(lite.pulse, lite.client)[0].waiting == 1, "not with every look"


def test_between_two_tries_of_a_bad_row_there_is_a_pause_that_grows(lite):
    enqueue(lite, "bad")
    lite.change(lite.rows()[0].seq, message="nonsense")
    assert (lite.relay.look(), lite.relay.look()) == (1, 0)
    [row] = lite.rows()
    assert row.try_at > row.created
    lite.change(row.seq, try_at=1, attempts=3)
    lite.relay.look()
    assert (lite.rows()[0].try_at - row.created) / 1e6 >= 8 * module.FIRST_PAUSE


@pytest.mark.parametrize("when", ["before they are marked", "before they are deleted", "before the commit"])
def test_a_relay_that_dies_between_publish_and_delete_changes_nothing(post, monkeypatch, when):
    job = enqueue(post, 1)
    what = {"before they are marked": "remember", "before they are deleted": "drop"}.get(when, "forget")

    def die(*args):
        raise SystemExit  # the transaction is rolled back, as the database does for a process that is gone

    if what == "forget":

        def die(connection, seqs):
            drop(connection, seqs)
            raise SystemExit

        what = "drop"
    with monkeypatch.context() as patch:
        patch.setattr(module, what, die)
        with pytest.raises(SystemExit):
            post.relay.look()
    assert len(post.rows()) == 1
    post.bench.drain()
    assert post.deliver() == [1]
    assert post.rows() == []
    assert job.get(timeout=5) == 1


def test_a_relay_that_dies_after_its_commit_leaves_a_mark_that_does_no_harm(post, monkeypatch):
    enqueue(post, 1)

    def die(*_):
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(module, "forget", die)
        with pytest.raises(SystemExit):
            post.relay.look()
    assert post.rows() == []
    enqueue(post, 2)
    assert post.deliver() == [1, 2]


def test_rows_that_could_not_be_deleted_are_not_sent_again_when_their_jobs_are_forgotten(post, monkeypatch):
    job = enqueue(post, 1)

    def locked(*_):
        raise OperationalError("DELETE", {}, OSError("the database is locked"))

    with monkeypatch.context() as patch:
        patch.setattr(module, "drop", locked)
        with pytest.raises(OperationalError):
            post.relay.look()
    post.bench.drain()
    post.client.delete(post.pulse.keys.job(job.id).record)
    assert post.deliver() == [1]
    assert post.rows() == []


def test_with_redis_away_nothing_is_taken_out_and_what_was_sent_before_is_kept(make_post, restartable_valkey):
    url = restartable_valkey.url
    post = make_post(denyut_redis_url=url, broker_url=url, result_backend=url, denyut_redis_timeout=0.3)
    enqueue(post, 1)
    restartable_valkey.kill()
    with pytest.raises(RedisError):
        post.relay.look()
    assert [row.attempts for row in post.rows()] == [0], "it is not the row's fault"
    restartable_valkey.start()
    assert post.relay.look() == 1
    assert post.rows() == []


def test_two_relays_at_once_do_no_double_work(post):
    for n in range(300):
        enqueue(post, n)
    relays = [post.relay, post.another_relay()]
    counts = [0, 0]

    def work(i):
        while found := relays[i].look():
            counts[i] += found

    threads = [Thread(target=work, args=(i,)) for i in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    relays[1].close()
    post.relay_all()
    assert post.rows() == []
    assert queue_length(post) == 300
    if post.engine.dialect.name == "postgresql":
        assert sum(counts) == 300, "each row was in the hands of one relay"


# ---- as a thread of a worker --------------------------------------------------------------------------


def test_a_commit_is_relayed_at_once_though_the_next_look_is_far(make_post, running):
    post = make_post(denyut_outbox_interval=60.0)
    running(post.relay)
    wait_until(lambda: post.relay.looks)
    enqueue(post, 1)
    wait_until(lambda: queue_length(post), 5)
    with post.engine.connect() as connection:  # tells the relays just before it commits
        post.outbox.enqueue(connection, post.note.s(2))
        connection.commit()
    wait_until(lambda: queue_length(post) == 2, 5)


def test_what_nobody_told_of_is_found_by_the_next_look(make_post, running, monkeypatch):
    post = make_post(denyut_outbox_interval=0.1)
    monkeypatch.setattr("denyut.tasks.outbox.poke.Poker.poke", lambda _: None)
    running(post.relay)
    enqueue(post, 1)
    wait_until(lambda: queue_length(post), 5)


def test_of_several_workers_one_looks_and_another_takes_over_when_it_is_gone(make_post, running, monkeypatch):
    monkeypatch.setattr(module, "LEASE", 1.0)
    post = make_post(denyut_outbox_interval=0.1)
    new_node("first@test")
    assert post.relay.step() <= 0.1
    assert post.relay.holding
    new_node("second@test")
    other = post.another_relay()
    assert 0 < other.step() <= 1.2
    assert (other.holding, other.looks) == (False, 0)
    running(other)
    enqueue(post, 1)
    wait_until(lambda: queue_length(post), 5)


def test_a_stop_ends_the_wait_of_the_holder_at_once(make_post, running):
    post = make_post(denyut_outbox_interval=60.0)
    running(post.relay)
    wait_until(lambda: post.relay.looks)
    began = monotonic()
    post.relay.stop()
    assert monotonic() - began < 0.9


def test_an_idle_relay_asks_the_database_no_more_often_than_it_is_told_to(make_post, running):
    post = make_post(denyut_outbox_interval=0.5)
    running(post.relay)
    wait_until(lambda: post.relay.looks)
    before = post.relay.looks
    sleep(1.5)  # that little is done meanwhile is what is tested
    assert 1 <= post.relay.looks - before <= 4


def test_a_redis_that_goes_and_comes_back_loses_no_row_and_does_none_twice(
    make_post, running, restartable_valkey
):
    url = restartable_valkey.url
    post = make_post(denyut_redis_url=url, broker_url=url, result_backend=url, denyut_redis_timeout=0.3)
    running(post.relay)
    enqueue(post, 0)
    wait_until(lambda: not post.rows(), 5)
    restartable_valkey.kill()
    for n in (1, 2, 3):
        enqueue(post, n)
    restartable_valkey.start()
    wait_until(lambda: not post.rows(), 20)
    post.bench.drain()
    assert sorted(post.ran) == [0, 1, 2, 3]


@pytest.fixture
def own_postgres():
    programs = find_programs()
    assert programs is not None
    server = PrivatePostgres()
    try:
        server.start(programs)
        yield server
    finally:
        server.signal_all(signal.SIGCONT)
        server.stop()


def test_a_database_that_is_killed_or_paused_is_waited_for_and_told_of(make_post, running, own_postgres):
    post = make_post(own_postgres.database(), denyut_outbox_interval=0.1)
    running(post.relay)
    enqueue(post, 1)
    wait_until(lambda: queue_length(post) == 1, 10)
    own_postgres.kill()
    wait_until(lambda: read_told(post.pulse, post.client)[0].error, 10)
    own_postgres.restart()
    wait_until(lambda: not read_told(post.pulse, post.client)[0].error, 15)
    enqueue_with_patience(post, 2)
    wait_until(lambda: queue_length(post) == 2, 15)
    own_postgres.signal_all(signal.SIGSTOP)
    looks = post.relay.looks
    sleep(0.5)  # it hangs meanwhile
    assert post.relay.looks - looks <= 1
    own_postgres.signal_all(signal.SIGCONT)
    enqueue_with_patience(post, 3)
    wait_until(lambda: queue_length(post) == 3, 15)
    post.bench.drain()
    assert post.ran == [1, 2, 3]


def enqueue_with_patience(post, n):
    def done():
        try:
            enqueue(post, n)
        except SQLAlchemyError:
            return False
        return True

    wait_until(done, 15)


@pytest.fixture
def pausing(post, monkeypatch):
    """A process whose relay is paused with a row in hand."""
    monkeypatch.setattr("denyut.database.outbox_take._STANDING", 300)  # ms; it is 10 s
    pids = []

    def pause(in_hand: float) -> int:
        pid = os.fork()
        if pid == 0:
            try:
                deliver = module.deliver

                def paused(*args):
                    os.kill(os.getpid(), signal.SIGSTOP)
                    return deliver(*args)

                module.deliver = paused
                monkeypatch.setattr("denyut.tasks.outbox.deliver.IN_HAND", in_hand)
                post.another_relay().look()
            except BaseException:  # noqa: BLE001 - it says by its end that it has failed
                os._exit(3)
            os._exit(0)
        pids.append(pid)
        os.waitpid(pid, os.WUNTRACED)
        return pid

    yield pause
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_the_rows_of_a_relay_that_is_paused_are_taken_over_and_when_it_wakes_it_changes_nothing(
    post, pausing
):
    enqueue(post, 1)
    pid = pausing(60.0)
    wait_until(post.relay.look, 10)
    post.bench.drain()
    assert post.ran == [1]
    os.kill(pid, signal.SIGCONT)
    _, status = os.waitpid(pid, 0)
    ended = os.waitstatus_to_exitcode(status)
    assert ended == (3 if post.engine.dialect.name == "postgresql" else 0), "its transaction was ended"
    assert post.deliver() == [1]
    assert post.rows() == []


def test_a_relay_that_wakes_after_the_job_was_forgotten_does_not_send_it_again(post, pausing):
    job = enqueue(post, 1)
    pid = pausing(0.1)
    wait_until(post.relay.look, 10)
    post.bench.drain()
    post.client.delete(post.pulse.keys.job(job.id).record)
    sleep(0.2)  # longer than it may have the row in hand
    os.kill(pid, signal.SIGCONT)
    os.waitpid(pid, 0)
    assert post.deliver() == [1]


def test_what_a_job_enqueues_with_the_commit_of_its_effect_is_enqueued_once_in_all_its_attempts(post):
    create_effects_table(post.engine)

    @post.bench.task(name="t.pay")
    def pay() -> str:
        with Session(post.engine) as session:
            follow = post.outbox.enqueue(session, post.note.s("paid"))
            current_job().commit(session, follow.id)
        raise DiedError  # before its end is written

    job = pay.delay()
    [message] = post.bench.messages()
    for _ in range(2):
        with suppress(DiedError):
            post.bench.run(message)
        post.bench.crash(job.id)
    assert post.deliver() == ["paid"]
