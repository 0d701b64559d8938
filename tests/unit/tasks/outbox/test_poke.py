"""The hint to the relays: cheap, bounded, and nobody's trouble."""

from __future__ import annotations

import os
import signal
from time import monotonic

from sqlalchemy.orm import Session

from denyut.tasks.outbox.places import places
from denyut.tasks.outbox.poke import Poker


def pokes(post):
    key = post.pulse.keys.relay_poke(places(post.pulse)[0].name)
    return post.client.llen(key), post.client.pttl(key)


def test_however_many_commits_there_are_one_hint_waits_and_not_for_ever(lite):
    for _ in range(3):
        with Session(lite.engine) as session, session.begin():
            lite.outbox.enqueue(session, lite.note.s())
    many, ttl = pokes(lite)
    assert many == 1
    assert 0 < ttl <= 60_000


def test_every_database_with_an_outbox_gets_one(pulse):
    made = pulse(denyut_outbox_url=["sqlite:///a.db", "sqlite:///b.db"])
    poker = Poker(made)
    poker.poke()
    assert [made.store.client.llen(made.keys.relay_poke(place.name)) for place in places(made)] == [1, 1]
    poker.close()


def test_a_redis_that_hangs_costs_a_commit_a_quarter_of_a_second_and_the_next_nothing(
    make_post, restartable_valkey
):
    post = make_post(denyut_redis_url=restartable_valkey.url, broker_url=restartable_valkey.url)
    with Session(post.engine) as session, session.begin():
        post.outbox.enqueue(session, post.note.s())
    os.kill(restartable_valkey.pid, signal.SIGSTOP)
    try:
        took = []
        for _ in range(2):
            with Session(post.engine) as session:
                post.outbox.enqueue(session, post.note.s())
                began = monotonic()
                session.commit()
                took.append(monotonic() - began)
    finally:
        os.kill(restartable_valkey.pid, signal.SIGCONT)
    assert 0.2 < took[0] < 2.0
    assert took[1] < 0.2
    assert len(post.rows()) == 3


def test_a_process_that_was_forked_tells_with_a_connection_of_its_own(pulse):
    made = pulse(denyut_outbox_url="sqlite:///a.db")
    poker = Poker(made)
    poker.poke()
    key = made.keys.relay_poke(places(made)[0].name)
    made.store.client.delete(key)
    poker._lock.acquire()  # as by a thread that the child does not have
    pid = os.fork()
    if pid == 0:
        poker.poke()
        os._exit(0 if poker._pid == os.getpid() else 1)
    poker._lock.release()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert made.store.client.llen(key) == 1
    poker.poke()
    assert made.store.client.llen(key) == 1, "and the parent's is as it was"
    poker.close()
