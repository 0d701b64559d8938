from __future__ import annotations

from contextlib import closing
from math import inf
from threading import Thread
from time import monotonic

import pytest
from support import wait_until

from denyut.errors import JobCancelled
from denyut.tasks.locks.waiting import Waiting
from denyut.tasks.run import JobRun
from denyut.tasks.slots import CANCEL, SlotBlock


@pytest.fixture
def wake(locks) -> str:
    return locks.keys.lock("a").wake


@pytest.fixture
def waiting(locks, wake):
    with closing(Waiting(locks.store, wake, None)) as made:
        yield made


def blocked(locks) -> int:
    return int(locks.store.client.info("clients")["blocked_clients"])


def test_a_baton_ends_the_wait(locks, wake, waiting):
    locks.store.client.rpush(wake, "b")
    assert waiting.baton(5.0, inf) == "b"


def test_it_waits_no_longer_than_it_is_told_and_keeps_its_turn(locks, wake, waiting):
    began = monotonic()
    assert waiting.baton(0.1, inf) == ""
    assert 0.1 <= monotonic() - began < 2
    with closing(Waiting(locks.store, wake, None)) as later:
        assert later.baton(0.01, inf) == ""
        locks.store.client.rpush(wake, "b")
        assert waiting.baton(5.0, inf) == "b", "it came first, and has waited on meanwhile"


def test_the_server_ends_a_wait_that_has_an_end(locks, waiting):
    assert waiting.baton(5.0, 0.05) == ""
    wait_until(lambda: blocked(locks) == 0, what="the end of the wait")


def test_whoever_goes_waits_no_more(locks, wake, waiting):
    waiting.baton(0.01, inf)
    assert blocked(locks) == 1
    waiting.close()
    wait_until(lambda: blocked(locks) == 0, what="the end of the wait")
    locks.store.client.rpush(wake, "b")
    assert locks.store.client.lrange(wake, 0, -1) == [b"b"]


def test_a_connection_that_is_cut_is_made_again(locks, wake, waiting):
    waiting.baton(0.01, inf)
    locks.store.client.client_kill_filter(_type="normal", skipme=True)
    assert waiting.baton(0.05, inf) == ""
    locks.store.client.rpush(wake, "b")
    wait_until(lambda: waiting.baton(1.0, inf) == "b", what="the baton")


def test_a_job_that_waits_hears_that_it_is_cancelled(locks, wake):
    block = SlotBlock.create(4)
    slot = block.slot(0)
    slot.begin(job_id="j", task="t", partition=0, fence=7, attempt=1, owner="w")
    told = Thread(target=lambda: (wait_until(lambda: blocked(locks)), block.flag(0, 7, CANCEL)))
    told.start()
    made = Waiting(locks.store, wake, JobRun(id="j", task="t", fence=7, slot=slot))
    with closing(made), pytest.raises(JobCancelled):
        made.baton(30.0, inf)
    told.join()
    block.close()
