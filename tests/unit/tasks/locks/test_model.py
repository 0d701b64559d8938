"""Any order of steps, lapses, losses of data and lost replies, against an oracle: never two holders.

The oracle knows the true history: who took the lock, who released it, when a hold lapsed. Time is made
by moving ``until`` back, as a lapse does, so that no test waits.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from time import monotonic

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from redis import Redis

from denyut import scripts
from denyut.keys import Keys
from denyut.tasks.locks import steps
from denyut.tasks.locks.steps import Held, Refusal

LEASE, NAMES = 6.0, ("a",)
TOKENS = count(1)
lost_reply = st.booleans()


@dataclass
class Truth:
    """What is true of one lock."""

    owner: Held | None = None  # whose hold has neither been released nor taken over
    lapsed: bool = False  # its time is over
    known: bool = True  # Redis has it
    handed: str | None = None  # the baton, while the lock is kept for whoever has it
    popped: bool = False  # somebody has the baton
    old: bool = False  # whoever was refused just before the release has lined up by now


class Machine(RuleBasedStateMachine):
    """Processes that take, renew and release a lock."""

    client: Redis

    def __init__(self):
        super().__init__()
        self.client.flushall()
        self.keys = Keys("m", 1)
        self.truth = {name: Truth() for name in NAMES}
        self.past: list[Held] = []  # every hold that there ever was
        self.highest = dict.fromkeys(NAMES, 0)

    @initialize()
    def begin(self):
        self.client.script_flush()

    def pick(self, data):
        """A hold; that of an owner as often as any of the past."""
        owners = [truth.owner for truth in self.truth.values() if truth.owner is not None]
        return data.draw(st.sampled_from(owners if owners and data.draw(st.booleans()) else self.past))

    def call(self, call, *, twice):
        """Send a script, or send it twice, as a client does whose first reply was lost."""
        first = scripts.run_all(self.client, [call])[0]
        if not twice:
            return first
        second = scripts.run_all(self.client, [call])[0]
        assert (first == second) or (first[0] == second[0] == b"WAIT"), (first, second)
        return second

    @rule(name=st.sampled_from(NAMES), twice=lost_reply, baton=st.booleans())
    def take(self, name, twice, baton):
        self.ask(name, 0.0, twice, baton)

    @rule(name=st.sampled_from(NAMES), twice=lost_reply, baton=st.booleans())
    def take_or_wait(self, name, twice, baton):
        self.ask(name, 30.0, twice, baton)

    def ask(self, name, waits, twice, baton):
        truth, token = self.truth[name], f"t{next(TOKENS)}"
        with_baton = truth.handed if baton and truth.popped and truth.handed else ""
        options = {"token": token, "ttl": LEASE, "baton": with_baton, "waits": waits, "job": "j"}
        answers = [
            steps.acquire(self.client, self.keys, name=name, lease_ttl=LEASE, **options)
            for _ in range(2 if twice else 1)
        ]
        if isinstance(answers[0], int):
            assert len(set(answers)) == 1
        answer = answers[-1]
        free = truth.owner is None or truth.lapsed
        kept = truth.handed is not None and not with_baton
        if not (kept and not truth.popped and not truth.old):  # else it depends on how fast this test is
            assert isinstance(answer, int) == (free and not (kept and truth.popped)), (answer, truth)
        if isinstance(answer, int):
            assert answer > self.highest[name]
            self.highest[name] = answer
            held = Held(name, token, answer, LEASE, monotonic(), 1, "j")
            self.past.append(held)
            self.truth[name] = Truth(owner=held)
        else:
            assert isinstance(answer, Refusal)
            assert (answer.holder.fence if answer.holder else None) == (truth.owner and truth.owner.fence)

    @precondition(lambda self: self.past)
    @rule(data=st.data(), twice=lost_reply)
    def renew(self, data, twice):
        held = self.pick(data)
        truth = self.truth[held.name]
        [(_, call)] = steps.renew_calls(self.keys, [held], lease_ttl=LEASE, now=held.answered + 1)
        [word] = self.call(call, twice=twice)
        assert (word == b"RENEWED") == (truth.owner == held), (word, truth)
        if word == b"RENEWED":
            truth.lapsed, truth.known = False, True

    @precondition(lambda self: self.past)
    @rule(data=st.data(), twice=lost_reply, by_hand=st.booleans(), woken=st.booleans())
    def release(self, data, twice, by_hand, woken):
        held = self.pick(data)
        truth = self.truth[held.name]
        call = steps.release_call(self.keys, held, lease_ttl=LEASE, now=held.answered + 1, by_hand=by_hand)
        answer = self.call(call, twice=twice)
        if truth.owner == held and by_hand and not truth.known:
            assert answer == 0
        elif truth.owner == held:
            assert answer == 1
            at = self.keys.lock(held.name)
            batons = self.client.lrange(at.wake, 0, -1)
            assert len(batons) <= 1
            self.truth[held.name] = Truth(handed=batons[0].decode() if batons else None)
            if batons:  # no lapse but those of the rule
                self.client.hset(at.lock, "until", 9_000_000_000_000_000)
                self.client.persist(at.wake)
                if woken:
                    self.wake(held.name)
                    self.moment_passes(held.name)

    @rule(name=st.sampled_from(NAMES))
    def lapse(self, name):
        """The time of the hold, or of the baton, is over."""
        truth, at = self.truth[name], self.keys.lock(name)
        if truth.owner is not None or truth.handed is not None:
            self.client.hset(at.lock, "until", 1)
            self.client.delete(at.wake)
            truth.lapsed, truth.handed = True, None

    @rule(name=st.sampled_from(NAMES))
    def wake(self, name):
        """Whoever has waited longest gets the baton."""
        truth, at = self.truth[name], self.keys.lock(name)
        if truth.handed is not None and not truth.popped:
            assert self.client.lpop(at.wake) == truth.handed.encode()
            truth.popped = True

    @rule(name=st.sampled_from(NAMES))
    def moment_passes(self, name):
        truth = self.truth[name]
        if truth.handed is not None:
            self.client.hset(self.keys.lock(name).lock, "kept", 1)
            truth.old = True

    @rule(really=st.integers(0, 3))
    def lose_all(self, really):
        """Redis loses its data. Owners are told in time (within a few seconds)."""
        if really:
            return  # a rare event
        self.client.flushall()
        for truth in self.truth.values():
            truth.handed, truth.popped = None, False
        # A hold that nobody takes over goes on when it is renewed; but anybody may take the lock first.
        for truth in self.truth.values():
            truth.lapsed, truth.known = truth.owner is not None, False
        self.past = [truth.owner for truth in self.truth.values() if truth.owner is not None]


@pytest.mark.usefixtures("valkey")
def test_in_whatever_order_steps_come_there_is_one_holder_and_fences_grow(valkey):
    Machine.client = valkey
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=300,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
