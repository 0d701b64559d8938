"""The scripts of a lock: fences grow, each may be sent twice, a loss of data is told apart from a loss."""

from __future__ import annotations

from itertools import count
from time import monotonic

import pytest
from support import wait_until
from unit.tasks.locks.conftest import every_reply_is_lost
from unit.tasks.locks.test_naming import HOSTILE

from denyut.scripts import run_all, slot_tag
from denyut.tasks.locks import steps
from denyut.tasks.locks.steps import Held, Holder, Refusal

LEASE = 6.0


class Hand:
    """The steps, by hand, for one lock after another."""

    def __init__(self, pulse):
        self.client, self.keys = pulse.store.client, pulse.keys
        self.numbers = count(1)

    def acquire(self, name="a", *, token=None, ttl=LEASE, baton="", waits=0.0, job="j"):
        """Returns what Redis says, as a hold if it was taken."""
        token = token or f"t{next(self.numbers)}"
        options = {"ttl": ttl, "baton": baton, "waits": waits, "job": job, "lease_ttl": LEASE}
        answer = steps.acquire(self.client, self.keys, name=name, token=token, **options)
        return Held(name, token, answer, ttl, monotonic(), 1, job) if isinstance(answer, int) else answer

    def renew(self, held, *, since=0.0):
        return steps.renew(self.client, self.keys, held, lease_ttl=LEASE, now=held.answered + since)

    def release(self, held, *, since=0.0, by_hand=False):
        call = steps.release_call(
            self.keys, held, lease_ttl=LEASE, now=held.answered + since, by_hand=by_hand
        )
        return run_all(self.client, [call])[0]

    def lapse(self, name="a"):
        """Let the hold be over, as its TTL does."""
        self.client.hset(self.keys.lock(name).lock, "until", 1)

    def batons(self, name="a"):
        return [baton.decode() for baton in self.client.lrange(self.keys.lock(name).wake, 0, -1)]


@pytest.fixture
def hand(locks):
    return Hand(locks)


def test_one_has_it_and_the_next_is_told_who(hand):
    held = hand.acquire(job="j7")
    answer = hand.acquire()
    assert isinstance(answer, Refusal)
    assert (answer.holder.job, answer.holder.fence) == ("j7", held.fence)
    assert LEASE - 1 < answer.left <= LEASE
    assert (
        str(answer.holder)
        == f"process {answer.holder.pid} on {answer.holder.host} (job j7), fence {held.fence}"
    )


def test_a_released_lock_is_free_and_its_fence_grows(hand):
    fences = []
    for _ in range(5):
        fences.append((held := hand.acquire()).fence)
        assert hand.release(held) == 1
    assert fences == sorted(set(fences))


def test_fences_grow_though_the_clock_of_the_server_does_not(hand):
    at = hand.keys.lock("a")
    hand.client.set(at.fences, 5_000_000_000_000_000)  # of a time that is yet to come
    held = hand.acquire()
    assert held.fence == 5_000_000_000_000_001
    hand.client.delete(at.fences)
    hand.release(held)
    assert hand.acquire().fence == 5_000_000_000_000_002


def test_a_hold_that_has_lapsed_is_anybodys_and_its_old_owner_is_refused(hand):
    old = hand.acquire()
    hand.lapse()
    new = hand.acquire()
    assert new.fence > old.fence
    assert hand.renew(old) == "LOST"
    assert hand.release(old) == 0
    assert hand.renew(new) == "RENEWED"
    assert hand.client.hget(hand.keys.partition(hand.keys.partition_of("a")).counters, "lock_lapsed") == b"1"


def test_a_hold_that_has_lapsed_is_still_its_owners_while_nobody_has_taken_it(hand):
    held = hand.acquire()
    hand.lapse()
    assert hand.renew(held) == "RENEWED"
    assert isinstance(hand.acquire(), Refusal)


def test_a_renewal_does_not_bring_back_what_was_released(hand):
    held = hand.acquire()
    hand.release(held)
    assert hand.renew(held) == "FREED"
    other = hand.acquire()
    assert hand.renew(held) == "FREED"
    assert hand.renew(other) == "RENEWED"


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_the_keys_of_a_lock_share_a_slot_whatever_its_name_and_no_two_locks_share_one(hand, name):
    at = hand.keys.lock(name)
    slot_tag([at.lock, at.wake, at.locks, at.fences, at.freed, at.counters])
    held = hand.acquire(name)
    assert hand.acquire(f"{name}x").fence
    assert hand.release(held) == 1


def test_every_step_may_be_sent_twice(hand):
    baton = ""
    with every_reply_is_lost() as names:
        for _ in range(3):
            held = hand.acquire(baton=baton)
            assert isinstance(hand.acquire(waits=1.0), Refusal)
            assert hand.renew(held) == "RENEWED"
            assert hand.release(held) == 1
            [baton] = hand.batons()
    assert set(names) == {"acquire", "renew", "release"}


def test_a_late_copy_of_a_take_does_not_take_the_lock_again(hand):
    held = hand.acquire(token="mine")
    hand.release(held)
    assert hand.acquire(token="mine") is None
    assert hand.acquire().fence


def test_a_late_copy_of_a_release_is_answered_alike_after_others_have_had_the_lock(hand):
    held = hand.acquire()
    hand.release(held)
    others = [hand.acquire()]
    assert hand.release(held) == 1
    hand.release(others[0])
    last = hand.acquire()
    assert hand.release(held) == 1
    assert hand.renew(last) == "RENEWED"


# ---- handing it on ---------------------------------------------------------------------------------


def test_a_lock_that_somebody_waits_for_is_handed_to_whoever_takes_the_baton(hand):
    held = hand.acquire()
    hand.acquire(waits=3.0)
    hand.release(held)
    baton = hand.client.lpop(hand.keys.lock("a").wake).decode()
    passer_by = hand.acquire()
    assert passer_by.holder is None, "somebody is on his way"
    assert hand.acquire(baton="stale").holder is None
    hand.client.hset(hand.keys.lock("a").lock, "kept", 1)
    assert hand.acquire().holder is None, "also when he takes his time"
    assert hand.acquire(baton=baton).fence > held.fence


def test_a_baton_that_nobody_takes_keeps_nobody_out(hand):
    held = hand.acquire()
    hand.acquire(waits=3.0)
    hand.release(held)
    assert hand.acquire().holder is None, "whoever was refused a moment ago may be lining up"
    new = wait_until(lambda: isinstance(got := hand.acquire(), Held) and got, what="the end of that moment")
    assert new.fence > held.fence
    assert hand.batons() == []


def test_a_lock_is_free_when_whoever_was_woken_does_not_come(hand):
    held = hand.acquire()
    hand.acquire(waits=3.0)
    hand.release(held)
    hand.client.lpop(hand.keys.lock("a").wake)
    hand.lapse()
    assert hand.acquire().fence > held.fence


def test_no_baton_is_left_where_nobody_waits(hand):
    hand.release(hand.acquire())
    assert hand.batons() == []


# ---- by hand ---------------------------------------------------------------------------------------


def test_a_lock_is_released_by_hand_only_with_the_fence_of_this_very_hold(hand):
    held = hand.acquire()
    assert hand.release(held._replace(fence=held.fence - 1), by_hand=True) == 0
    assert hand.release(held, by_hand=True) == 1
    assert hand.release(held, by_hand=True) == 1, "sent twice"
    assert hand.renew(held) == "LOST"
    assert hand.release(held) == 0, "its owner is told"
    new = hand.acquire()
    assert hand.release(held, by_hand=True) == 0
    assert hand.renew(new) == "RENEWED"


# ---- Redis loses data ------------------------------------------------------------------------------


def test_a_lock_that_redis_has_lost_is_still_its_owners_if_nobody_can_have_had_it(hand):
    held = hand.acquire()
    hand.client.flushall()
    assert hand.renew(held, since=2.0) == "RENEWED"
    assert isinstance(hand.acquire(), Refusal)
    assert hand.renew(held) == "RENEWED"
    hand.client.flushall()
    assert hand.release(held, since=2.0) == 1
    assert hand.renew(held, since=2.0) == "FREED", "a beat that was on its way does not bring it back"


def test_a_lock_that_redis_has_lost_is_lost_if_somebody_has_taken_it_since(hand):
    old = hand.acquire()
    hand.client.flushall()
    new = hand.acquire()
    assert new.fence > old.fence
    assert hand.renew(old, since=2.0) == "LOST"
    assert hand.release(new) == 1
    assert hand.renew(old, since=2.0) == "LOST", "somebody has had it"
    assert hand.release(old, since=2.0) == 0


def test_a_lock_that_redis_has_lost_too_long_ago_is_lost(hand):
    held = hand.acquire()
    hand.client.flushall()
    assert hand.renew(held, since=31.0) == "LOST"
    assert hand.release(held, since=31.0) == 0


def test_a_lock_is_taken_back_from_an_older_time_that_has_come_back(hand):
    first = hand.acquire()
    at = hand.keys.lock("a").lock
    old = hand.client.hgetall(at)
    hand.release(first)
    second = hand.acquire()
    hand.client.delete(at)
    hand.client.hset(at, mapping=old)
    assert hand.renew(second) == "RENEWED"
    assert hand.client.hget(at, "fence") == str(second.fence).encode()
    assert hand.release(second) == 1


def test_after_a_loss_fences_go_on_from_the_highest_that_is_known(hand):
    held = hand.acquire()._replace(fence=5_000_000_000_000_000)
    hand.client.flushall()
    assert hand.renew(held) == "RENEWED"
    hand.release(held)
    assert hand.acquire().fence == held.fence + 1


def test_one_broken_key_costs_the_others_nothing(hand):
    part = hand.keys.partition_of("a")
    name = next(f"b{i}" for i in range(1000) if hand.keys.partition_of(f"b{i}") == part)
    good, bad = hand.acquire("a"), hand.acquire(name)
    hand.client.set(hand.keys.lock(name).lock, "x")
    calls = steps.renew_calls(hand.keys, [bad, good], lease_ttl=LEASE, now=monotonic())
    [(chunk, call)] = calls
    assert chunk == [bad, good]
    answers = run_all(hand.client, [call])[0]
    assert b"WRONGTYPE" in answers[0]
    assert answers[1] == b"RENEWED"


def test_what_is_over_leaves_nothing_behind(hand):
    for number in range(20):
        hand.release(hand.acquire(f"n{number}"))
    held = hand.acquire("n0")
    ages = {key: hand.client.pttl(key) for key in hand.client.keys(f"{hand.keys.prefix}:*")}
    lasting = {key.decode().rpartition(":")[2] for key, left in ages.items() if left < 0}
    assert lasting <= {"fences", "counters", "locks"}
    assert hand.client.zrange(hand.keys.lock("n0").locks, 0, -1) == [b"n0"]
    hand.client.zadd(hand.keys.lock("n0").locks, {"n0": 1})
    hand.lapse("n0")
    hand.release(held)
    assert hand.client.exists(hand.keys.lock("n0").locks) == 0


def test_a_holder_is_told_in_words():
    assert str(Holder("h", 7, "", 9, 0)) == "process 7 on h, fence 9"
