"""The state machine: everything that can happen, in any order.

A rule that picks from what there is takes any number and a list modulo its length, so that an example
stays meaningful when Hypothesis makes it shorter.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition
from model.cast import Child, Worker
from model.drain import drain
from model.faults import Died, Faults, Unanswered
from model.producers import Order, Producers
from model.recoverers import Recoverers
from model.rules import BY, FAULTS, FEW, HOW, KEYS, MOST_JOBS, OPTIONS, PICK, STEPS, happens, pick
from model.scripts import Library, virtual
from model.workers import Workers
from model.world import PARTITIONS, SETTINGS, Message, World, inhabited

from denyut.states import State
from denyut.tasks.cancel import end_from_outside
from denyut.tasks.claim import us


class Protocol(RuleBasedStateMachine):
    """Producers, workers, recoverers and accidents. Subclasses set ``redis`` and ``library``."""

    redis: ClassVar[Any] = None
    library: ClassVar[Library]
    #: Whether Redis may lose data. The oracle does not know yet what a beat then restores (restore.lua,
    #: FORGOTTEN in beat.lua), so this is for machines without beats of running attempts.
    forgetful: ClassVar[bool] = False
    #: Whether each example is played to its end, where everything must be settled.
    drains: ClassVar[bool] = True

    @initialize()
    def begin(self) -> None:
        self._loaded = virtual(self.library)
        self._loaded.__enter__()
        self.world = World(self.redis, self.library)
        self._inhabited = inhabited(self.world)
        self._inhabited.__enter__()
        pids = count(100)
        nodes = [Worker("w0", pids), Worker("w1", pids)]
        for node in nodes:
            node.boot(SETTINGS, self.world.keys)
        self.producers = Producers(self.world)
        self.workers = Workers(self.world, self.producers, nodes)
        self.recoverers = Recoverers(self.world, self.producers)
        self.saved: Any = None
        self.failed = False

    def teardown(self) -> None:
        if not hasattr(self, "failed"):
            return
        try:
            if self.drains and not self.failed:
                drain(self.world, self.producers, self.workers, self.recoverers)
        finally:
            self._inhabited.__exit__(None, None, None)
            self._loaded.__exit__(None, None, None)

    # -- what there is

    @property
    def ready(self) -> list[Message]:
        return self.world.broker.ready

    def idle(self) -> list[Child]:
        return [child for child in self.workers.children if child.idle]

    def bodies(self) -> list[Child]:
        return [c for c in self.workers.running() if c.attempt and c.attempt.phase == "body"]

    def working(self) -> list[Child]:
        return [c for c in self.bodies() if c.attempt and c.attempt.kind == "run"]

    def continuing(self) -> list[Child]:
        return [c for c in self.workers.running() if c.attempt and c.attempt.phase == "continuing"]

    def jobs(self) -> list[str]:
        return list(self.world.oracle.jobs)

    # -- what is most common, in one step: so that what is rare is reached in a short example

    @precondition(lambda self: len(self.producers.orders) < MOST_JOBS and self.idle())
    @happens(part=FEW, key=KEYS, args=FEW, more=OPTIONS, who=PICK)
    def job_begins(self, part, key, args, more, who):
        order = Order(id=self.producers.draw(part, key), key=key, args=args, **more)
        self.producers.enqueue(order, Faults())
        for message in [message for message in self.ready if message.id == order.id]:
            self.workers.start(pick(self.idle(), who), self.world.broker.take(message), Faults())

    @happens(step=STEPS)
    def recovery_comes(self, step):
        self.world.advance(step)
        self.recoverers.round()

    @precondition(lambda self: self.ready and self.idle())
    @happens(who=PICK)
    def newest_message_is_delivered(self, who):
        message = self.world.broker.take(self.ready[-1])
        self.workers.start(pick(self.idle(), who), message, Faults())

    # -- producers

    @precondition(lambda self: len(self.producers.orders) < MOST_JOBS)
    @happens(part=FEW, key=KEYS, args=FEW, wait=st.integers(0, 2), more=OPTIONS, faults=FAULTS)
    def enqueue(self, part, key, args, wait, more, faults):
        job_id = self.producers.draw(part, key)
        order = Order(
            id=job_id, key=key, args=args, delay=5.0 * wait, expires=3.0 if wait == 2 else None, **more
        )
        self.producers.enqueue(order, Faults(**faults))

    @precondition(lambda self: len(self.producers.orders) < MOST_JOBS)
    @happens(part=FEW, key=KEYS, args=FEW, wait=FEW)
    def enqueue_unpublished(self, part, key, args, wait):
        order = Order(id=self.producers.draw(part, key), key=key, args=args, delay=5.0 * wait)
        self.producers.enqueue(order, Faults(), fails=True)

    @precondition(lambda self: len(self.producers.orders) < MOST_JOBS)
    @happens(part=FEW, key=KEYS, args=FEW, more=OPTIONS, by=BY, faults=FAULTS)
    def enqueue_with_given_id(self, part, key, args, more, by, faults):
        job_id = self.world.new_id(part)
        order = Order(id=job_id, key=key, args=args, frozen=True, by=by, **more)
        self.producers.enqueue(order, Faults(**faults))

    @precondition(lambda self: self.producers.orders)
    @happens(number=PICK, by=BY, faults=FAULTS)
    def enqueue_the_same_id_again(self, number, by, faults):
        order = pick(self.producers.orders, number)
        self.producers.enqueue(replace(order, frozen=True, by=by), Faults(**faults))

    @precondition(lambda self: len(self.producers.orders) < MOST_JOBS)
    @happens(part=FEW, key=KEYS, args=FEW, continues=st.booleans())
    def message_of_a_plain_client(self, part, key, args, continues):
        order = Order(id=self.world.new_id(part), key=key, args=args, continues=continues)
        self.producers.orders.append(order)
        self.producers.plain_client(order)

    @precondition(lambda self: len(self.producers.orders) < MOST_JOBS)
    @happens(part=FEW, key=KEYS, args=FEW, continues=st.booleans(), faults=FAULTS)
    def message_for_later_of_a_plain_client(self, part, key, args, continues, faults):
        order = Order(id=self.world.new_id(part), key=key, args=args, delay=5.0, continues=continues)
        self.producers.orders.append(order)
        self.workers.shelve(order, Faults(**faults))

    @precondition(lambda self: self.producers.unanswered)
    @happens(number=PICK)
    def enqueue_again_unanswered(self, number):
        self.producers.again(number % len(self.producers.unanswered), us(60.0))

    # -- the broker

    @precondition(lambda self: self.ready)
    @happens(number=PICK)
    def message_is_copied(self, number):
        self.ready.append(pick(self.ready, number).copy())

    @precondition(lambda self: self.ready)
    @happens(number=PICK)
    def message_is_lost(self, number):
        self.ready.remove(pick(self.ready, number))

    @precondition(lambda self: self.world.broker.unacked)
    @happens(number=PICK, copy=st.booleans())
    def message_is_delivered_again(self, number, copy):
        message = pick(self.world.broker.unacked, number)
        if copy:
            self.ready.append(message.copy())
        else:
            self.world.broker.give_back(message)

    # -- workers

    @precondition(lambda self: self.ready and self.idle())
    @happens(number=PICK, who=PICK, faults=FAULTS)
    def deliver(self, number, who, faults):
        message = self.world.broker.take(pick(self.ready, number))
        self.workers.start(pick(self.idle(), who), message, Faults(**faults))

    @precondition(lambda self: self.ready)
    @happens(number=PICK, who=PICK)
    def prefetch(self, number, who):
        message = self.world.broker.take(pick(self.ready, number))
        pick(self.workers.nodes, who).in_hand.append(message)

    @precondition(lambda self: any(n.in_hand for n in self.workers.nodes))
    @happens(number=PICK, who=PICK)
    def start_prefetched(self, number, who):
        node = pick([n for n in self.workers.nodes if n.in_hand], who)
        idle = [child for child in node.children if child.idle]
        if idle:
            self.workers.start(idle[0], node.in_hand.pop(number % len(node.in_hand)), Faults())

    @precondition(lambda self: self.bodies())
    @happens(number=PICK, how=HOW, wait=FEW, faults=FAULTS)
    def body_ends(self, number, how, wait, faults):
        self.workers.end(pick(self.bodies(), number), how, Faults(**faults), delay=3.0 * wait)

    @precondition(lambda self: self.continuing())
    @happens(number=PICK, faults=FAULTS)
    def continuation_is_sent(self, number, faults):
        self.workers.send_continuation(pick(self.continuing(), number), Faults(**faults))

    @precondition(lambda self: any(c.attempt.sent for c in self.continuing()))
    @happens(number=PICK, faults=FAULTS)
    def settle(self, number, faults):
        self.workers.settle(pick([c for c in self.continuing() if c.attempt.sent], number), Faults(**faults))

    @precondition(lambda self: any(c.pending for c in self.workers.children))
    @happens(number=PICK)
    def send_again_unanswered(self, number):
        self.workers.again(pick([c for c in self.workers.children if c.pending], number))

    @happens(who=PICK, draining=st.sampled_from([False, False, True]), faults=FAULTS)
    def beat(self, who, draining, faults):
        self.workers.beat(pick(self.workers.nodes, who), Faults(**faults), draining=draining)

    @precondition(lambda self: self.bodies())
    @happens(number=PICK)
    def tell_progress(self, number):
        attempt = pick(self.bodies(), number).attempt
        attempt.progress += 1
        attempt.stage += number % 2

    @precondition(lambda self: self.working())
    @happens(number=PICK, faults=FAULTS)
    def checkpoint(self, number, faults):
        self.workers.checkpoint(pick(self.working(), number), Faults(**faults))

    @precondition(lambda self: self.working())
    @happens(number=PICK, faults=FAULTS)
    def commit(self, number, faults):
        self.workers.commit(pick(self.working(), number), Faults(**faults))

    @precondition(lambda self: self.working())
    @happens(number=PICK, step=st.integers(0, 2), value=st.sampled_from(["", "1", "2"]), faults=FAULTS)
    def once(self, number, step, value, faults):
        self.workers.once(pick(self.working(), number), step, value, 2, Faults(**faults))

    @precondition(lambda self: self.workers.owed)
    @happens(number=PICK, wait=FEW, faults=FAULTS)
    def replacement_arrives(self, number, wait, faults):
        self.workers.arrive(pick(self.workers.owed, number), delay=3.0 * wait, faults=Faults(**faults))

    @precondition(lambda self: self.workers.owed)
    @happens(number=PICK, faults=FAULTS)
    def replacement_fails(self, number, faults):
        self.workers.never_arrive(pick(self.workers.owed, number), Faults(**faults))

    @precondition(lambda self: self.working())
    @happens(number=PICK, comes=st.booleans(), faults=FAULTS)
    def replacement_is_announced(self, number, comes, faults):
        self.workers.announce(pick(self.working(), number), Faults(**faults), comes=comes)

    # -- deaths

    @precondition(lambda self: any(not c.idle for c in self.workers.children))
    @happens(number=PICK)
    def child_is_killed(self, number):
        self.workers.kill_child(pick([c for c in self.workers.children if not c.idle], number))

    @precondition(lambda self: self.workers.notices)
    @happens(number=PICK, watched=st.booleans(), drained=st.booleans(), faults=FAULTS)
    def death_is_noticed(self, number, watched, drained, faults):
        notice = pick(self.workers.notices, number)
        self.workers.notice(notice, Faults(**faults), watched=watched, drained=drained)

    @happens(who=PICK)
    def worker_is_killed(self, who):
        self.workers.kill_worker(pick(self.workers.nodes, who))

    @precondition(lambda self: self.workers.running())
    @happens(number=PICK, faults=FAULTS)
    def hard_time_limit(self, number, faults):
        self.workers.over_time(pick(self.workers.running(), number), Faults(**faults))

    # -- recovery

    @happens(faults=FAULTS)
    def let_one_suspect_run(self, faults):
        self.recoverers.let_one_run(Faults(**faults))

    @happens(blames=st.booleans())
    def worker_is_judged(self, blames):
        self.world.blames = blames

    @happens(grace=st.sampled_from([None, None, 1.0]), faults=FAULTS)
    def publish_due(self, grace, faults):
        self.recoverers.publish_due(Faults(**faults), grace=grace)

    @happens(long=st.booleans())
    def look(self, long):
        self.recoverers.look(long=long)

    @precondition(lambda self: self.recoverers.found)
    @happens(number=PICK, faults=FAULTS)
    def move_on(self, number, faults):
        self.recoverers.move(number % len(self.recoverers.found), Faults(**faults))

    @precondition(lambda self: self.recoverers.graves)
    @happens(number=PICK, faults=FAULTS, tells=st.booleans())
    def bury(self, number, faults, tells):
        self.recoverers.bury(number % len(self.recoverers.graves), Faults(**faults), tells=tells)

    @precondition(lambda self: self.jobs())
    @happens(number=PICK, faults=FAULTS)
    def dead_letter_is_purged(self, number, faults):
        self.recoverers.purge(pick(self.jobs(), number), Faults(**faults))

    @happens()
    def old_dead_letters_are_purged(self):
        self.recoverers.purge_old()

    # -- from outside

    @precondition(lambda self: self.jobs())
    @happens(
        number=PICK,
        state=st.sampled_from([State.CANCELLED, State.EXPIRED]),
        running=st.booleans(),
        faults=FAULTS,
    )
    def ended_from_outside(self, number, state, running, faults):
        job_id = pick(self.jobs(), number)
        running = running and state == State.CANCELLED
        node = self.workers.nodes[0].node
        with suppress(Died, Unanswered), self.world.acting(node, Faults(**faults)):
            end_from_outside(self.world.pulse, job_id, state, retention=SETTINGS.retention, running=running)

    @precondition(lambda self: self.jobs())
    @happens(number=PICK, faults=FAULTS)
    def cancel(self, number, faults):
        self.recoverers.cancel(pick(self.jobs(), number), Faults(**faults))

    @precondition(lambda self: self.jobs())
    @happens(number=PICK, faults=FAULTS)
    def release(self, number, faults):
        self.recoverers.release(pick(self.jobs(), number), Faults(**faults))

    @precondition(lambda self: self.jobs())
    @happens(number=PICK, wait=FEW, faults=FAULTS)
    def reschedule(self, number, wait, faults):
        self.recoverers.reschedule(pick(self.jobs(), number), 8.0 * wait, Faults(**faults))

    @happens(step=STEPS)
    def time_passes(self, step):
        self.world.advance(step)

    @precondition(lambda self: self.forgetful)
    @happens()
    def redis_saves(self):
        self.saved = self.world.snapshot()

    @precondition(lambda self: self.forgetful and self.jobs())
    @happens(what=st.sampled_from(["all", "since", 0, 1]), messages=st.booleans())
    def redis_loses(self, what, messages):
        if isinstance(what, int):
            self.world.lose_partition(what % PARTITIONS)
        else:
            self.world.lose(self.saved if what == "since" else None)
        if messages:
            self.ready.clear()
