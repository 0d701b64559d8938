"""Workers: their heartbeats, their deaths, and what comes late: replacements, messages for later."""

from __future__ import annotations

from contextlib import suppress

from model.attempts import Attempts
from model.cast import Attempt, Child, Notice, Slots, Worker
from model.faults import Died, Faults, Unanswered
from model.producers import QUEUE, TASK, Order
from model.world import SETTINGS, Message

from denyut.errors import LeaseLost
from denyut.states import State
from denyut.tasks.cancel import end_from_outside
from denyut.tasks.claim import us
from denyut.tasks.envelope import Stamp
from denyut.tasks.recover import recover_lost_child
from denyut.tasks.replace import announce_replacement, end_replaced
from denyut.tasks.shelf import SHELVE


class Workers(Attempts):
    """The worker side of a world."""

    def arrive(self, attempt: Attempt, *, delay: float, faults: Faults) -> None:
        """The message of a replacement is sent."""
        self.owed.remove(attempt)
        order = Order(id=attempt.id, frozen=True, delay=delay, continues=attempt.continues)
        if self.producers.enqueue(order, faults) == "died":
            self.owed.append(attempt)  # whoever sends it is tried again, with another token

    def never_arrive(self, attempt: Attempt, faults: Faults) -> None:
        """The chain or chord that was to send the replacement has failed."""
        self.owed.remove(attempt)
        try:
            with self.world.acting(self.nodes[0].node, faults):
                end_replaced(self.world.pulse, attempt.id, ValueError())
        except (Died, Unanswered):
            self.owed.append(attempt)

    def announce(self, child: Child, faults: Faults, *, comes: bool) -> None:
        """The attempt is about to be replaced by a chord, whose body may come at once."""
        attempt = self._attempt(child)

        def op() -> None:
            with suppress(LeaseLost):
                announce_replacement(self.world.pulse, attempt.id, attempt.claim.fence)

        def then(_: None) -> None:
            if comes:
                order = Order(id=attempt.id, frozen=True, continues=attempt.continues)
                self.producers.enqueue(order, Faults())

        self._do(child, op, then, faults)

    def shelve(self, order: Order, faults: Faults) -> None:
        """A plain client's message for later moves to the store on receipt."""
        message, keys = Message(order.envelope, Stamp()), self.world.keys
        try:
            with self.world.acting(self.nodes[0].node, faults):
                found = self._key_of(message)
                args = [order.id, TASK, QUEUE, order.envelope.dump(), us(order.delay), "", SETTINGS.retention]
                args += [found.key, found.digest, found.fingerprint, found.follows, found.conflict]
                SHELVE(self.world.client, keys.script(order.id, found.digest or None), args)
        except (Died, Unanswered):
            self.world.broker.ready.append(message)  # it is received again

    def beat(self, node: Worker, faults: Faults, *, draining: bool = False) -> None:
        """One beat of a worker's heartbeat."""
        states = Slots(node).states(self.world.keys)
        held = [message.id for message in node.in_hand]
        try:
            with self.world.acting(node.node, faults):
                # By the model's clock the last beat is long ago: only a record can say that it is not over.
                node.beater._answered = -1e9
                node.beater.beat(self.world.client, states, held, draining=lambda _: draining)
        except (Died, Unanswered):
            pass  # a beat that failed is followed by the next one

    def kill_worker(self, node: Worker) -> None:
        """A whole node ends, and starts again."""
        for child in node.children:
            self.world.dead.add((node.node.owner, child.pid))
        self.notices = [notice for notice in self.notices if notice.worker is not node]
        node.boot(self.world.settings, self.world.keys)

    def notice(self, notice: Notice, faults: Faults, *, watched: bool, drained: bool = False) -> None:
        """The main process hands the job of a dead child over: the heartbeat's way, or the pool's."""
        if not watched:
            self.notices.remove(notice)
        message = notice.message
        if message is None or (watched and not notice.running):
            return
        generation = -1 if watched else message.stamp.gen
        try:
            with self.world.acting(notice.worker.node, faults):
                recover_lost_child(self.world.pulse, message.id, notice.pid, generation, drained=drained)
        except (Died, Unanswered):
            return
        if not watched:
            self.world.broker.ack(message)

    def over_time(self, child: Child, faults: Faults) -> None:
        """The hard time limit: the job ends as failed, then the process is killed."""
        message = child.message
        assert message is not None
        try:
            with self.world.acting(child.worker.node, faults):
                ended = end_from_outside(
                    self.world.pulse,
                    message.id,
                    State.FAILED,
                    TimeoutError(),
                    retention=SETTINGS.retention,
                    running=True,
                    owner=child.worker.node.owner,
                    pid=child.pid,
                    generation=message.stamp.gen,
                ).done
        except (Died, Unanswered):
            ended = False
        if ended:
            self.world.broker.ack(message)
        self.kill_child(child)
