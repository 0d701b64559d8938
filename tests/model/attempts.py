"""Attempts: what stands around the body of a task, step by step, with the functions of production."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from model.cast import PATIENCE, Attempt, Child, Notice, Pending, Worker
from model.faults import Died, Faults, Unanswered
from model.producers import QUEUE, TASK, Order, Producers
from model.world import SETTINGS, Message, World

from denyut.states import State
from denyut.tasks.claim import Claim, Code, Key, claim
from denyut.tasks.effects import COMMIT
from denyut.tasks.envelope import Stamp
from denyut.tasks.fingerprint import fingerprint
from denyut.tasks.finish import Outcome, finish, requeue, save_checkpoint, settle
from denyut.tasks.follow import follow
from denyut.tasks.key import digest_of
from denyut.tasks.keying import hold_key
from denyut.tasks.once import ONCE
from denyut.tasks.recover import recover

_RUNS = {
    Code.CLAIMED: "run",
    Code.REPLAY: "replay",
    Code.DEAD: "dead",
    Code.CONFLICT: "conflict",
}
ENDS = {
    "complete": State.COMPLETED,
    "fail": State.FAILED,
    "cancelled": State.CANCELLED,
    "ignore": State.IGNORED,
    "reject": State.REJECTED,
}


class Attempts:
    """What the pool processes of all workers do."""

    def __init__(self, world: World, producers: Producers, nodes: list[Worker]) -> None:
        self.world = world
        self.producers = producers
        self.nodes = nodes
        self.notices: list[Notice] = []
        self.owed: list[Attempt] = []  # replacements whose message comes later

    @property
    def children(self) -> list[Child]:
        return [child for node in self.nodes for child in node.children]

    def running(self) -> list[Child]:
        return [c for c in self.children if c.attempt is not None and c.pending is None]

    def _do(
        self,
        child: Child,
        op: Callable[[], Any],
        then: Callable[[Any], None],
        faults: Faults,
        token: str = "",
    ) -> None:
        token = token or self.world.new_token()
        try:
            with self.world.acting(child.worker.node, faults, token):
                value = op()
        except Unanswered:
            child.pending = Pending(op, token, then, self.world.now + PATIENCE)
        except Died:
            self.kill_child(child)
        else:
            child.pending = None
            then(value)

    def again(self, child: Child) -> None:
        """Send again what was not answered; after a minute the child gives up, and steps aside."""
        pending = child.pending
        assert pending is not None
        if self.world.now > pending.until:
            child.rest()
        else:
            self._do(child, pending.op, pending.then, Faults(), pending.token)

    def start(self, child: Child, message: Message, faults: Faults) -> None:
        """A delivery: ask the record."""
        child.message = message
        self._do(child, lambda: self._claim(child, message, own=False), self._claimed(child, message), faults)

    def _claim(self, child: Child, message: Message, *, own: bool) -> Claim:
        def found() -> tuple[str, Key]:
            return message.envelope.dump(), self._key_of(message)

        return claim(
            self.world.pulse,
            message.id,
            task=TASK,
            queue=QUEUE,
            stamp=message.stamp,
            pid=child.pid,
            message=found,
            own=own,
        )

    def _key_of(self, message: Message) -> Key:
        key = message.envelope.headers["idempotency_key"]
        if key is None:
            return Key()
        args, kwargs, _ = message.envelope.decode(["json"])
        digest, fp = digest_of(TASK, key), fingerprint(args, kwargs)
        answer, holder = hold_key(self.world.pulse, message.id, digest, fp)
        follows = holder if answer == "DUPLICATE" else ""
        conflict = holder if answer == "CONFLICT" else ""
        return Key(key=key, digest=digest, fingerprint=fp, follows=follows, conflict=conflict)

    def _claimed(self, child: Child, message: Message) -> Callable[[Claim], None]:
        def then(answer: Claim) -> None:
            if answer.code == Code.FOLLOW:
                self._follow(child, message, answer.detail)
            elif answer.code == Code.SUSPECT:
                suspect = lambda: recover(self.world.pulse, message.id, "lapsed")  # noqa: E731 - as it is
                self._do(child, suspect, lambda _: child.rest(), Faults())
            elif answer.code in _RUNS:
                self._begin(child, message, answer, _RUNS[answer.code])
            else:
                if answer.code != Code.BUSY:
                    self.world.broker.ack(message)
                child.rest()

        return then

    def _begin(self, child: Child, message: Message, answer: Claim, kind: str) -> None:
        continues = bool(message.envelope.headers["continues"])
        child.attempt = Attempt(message.id, answer, message, kind, continues)
        if kind in ("replay", "dead"):
            child.attempt.phase = "continuing"

    def _follow(self, child: Child, message: Message, other: str) -> None:
        def look() -> Any:
            return follow(self.world.pulse, message.id, other, message.stamp)

        def then(followed: Any) -> None:
            if followed is None:
                self.world.broker.ack(message)
                child.rest()
            else:
                ask = lambda: self._claim(child, message, own=True)  # noqa: E731 - it is sent again by name
                self._do(child, ask, self._claimed(child, message), Faults())

        self._do(child, look, then, Faults())

    def end(self, child: Child, how: str, faults: Faults, *, delay: float = 0.0) -> None:
        """The body is over."""
        attempt = child.attempt
        assert attempt is not None
        if attempt.kind == "conflict":
            how = "fail"
        if how in ENDS:
            self._finish(child, attempt, ENDS[how], faults)
        else:
            self._next_generation(child, attempt, how, delay, faults)

    def _finish(self, child: Child, attempt: Attempt, state: State, faults: Faults) -> None:
        settled = not attempt.continues or state in (State.IGNORED, State.REJECTED)
        result = f"r{attempt.claim.fence}" if state == State.COMPLETED else ""

        def op() -> bool:
            return finish(
                self.world.pulse,
                attempt.id,
                attempt.claim.fence,
                Outcome(state=state, result=result),
                digest=attempt.claim.digest,
                retention=SETTINGS.retention,
                settled=settled,
                reason="spent" if state == State.FAILED else "",
            )

        def then(ok: bool) -> None:
            if ok and not settled:
                attempt.phase = "continuing"
                return
            if ok:
                self.world.broker.ack(attempt.message)
            child.rest()

        self._do(child, op, then, faults)

    def _next_generation(
        self, child: Child, attempt: Attempt, how: str, delay: float, faults: Faults
    ) -> None:
        world, token = self.world, self.world.new_token()
        envelope = attempt.message.envelope
        text = envelope.dump() if how in ("retry", "replace") else ""

        def op() -> list[Any]:
            try:
                reply = requeue(
                    world.pulse,
                    attempt.id,
                    attempt.claim.fence,
                    "replace" if how == "replace later" else how,
                    message=text,
                    delay=delay if text else 0.0,
                    task=TASK,
                    queue=QUEUE,
                    token=token,
                )
            finally:  # what replaces it is on its way before it gives way, whatever becomes of this process
                view = world.oracle.jobs.get(attempt.id)
                if how == "replace later" and view and view.replaced and attempt not in self.owed:
                    self.owed.append(attempt)
            if text and reply[0] == b"RESERVED":
                world.publish(envelope, Stamp(int(reply[3]), reply[1].decode(), int(reply[2])))
            return reply

        def then(reply: list[Any]) -> None:
            child.rest()
            if reply[0] in (b"LOST", b"CANCELLED"):
                return
            if how == "requeue":
                world.broker.give_back(attempt.message)
            world.broker.ack(attempt.message)

        self._do(child, op, then, faults)

    def send_continuation(self, child: Child, faults: Faults) -> None:
        """Callbacks, chain, chord part: with ids that follow from the job's."""
        attempt = child.attempt
        assert attempt is not None
        attempt.sent = True
        if attempt.continues and self.producers.enqueue(Order(id=child_of(attempt.id)), faults) == "died":
            self.kill_child(child)

    def settle(self, child: Child, faults: Faults) -> None:
        """The continuation was sent."""
        attempt = child.attempt
        assert attempt is not None
        job = self.world.oracle.seen.job(attempt.id)
        done = job.record.get("state") == State.COMPLETED

        def op() -> bool:
            return settle(
                self.world.pulse,
                attempt.id,
                attempt.claim.fence,
                digest=attempt.claim.digest,
                retention=SETTINGS.retention,
                completed=done,
            )

        def then(ok: bool) -> None:
            self.world.broker.ack(attempt.message)
            child.rest()

        self._do(child, op, then, faults)

    def commit(self, child: Child, faults: Faults) -> None:
        """The attempt is about to commit its effect in a database."""
        attempt, pulse = self._attempt(child), self.world.pulse
        args = [attempt.id, attempt.claim.fence]
        keys = pulse.keys.script(attempt.id)
        self._do(child, lambda: COMMIT(pulse.store.client, keys, args), self._unless_lost(child), faults)

    def once(self, child: Child, step: int, value: str, most: int, faults: Faults) -> None:
        """A step that a later attempt skips."""
        attempt, pulse = self._attempt(child), self.world.pulse
        args = [attempt.id, attempt.claim.fence, f"once:{step}", value, most]
        keys = pulse.keys.script(attempt.id)
        self._do(child, lambda: ONCE(pulse.store.client, keys, args)[0], self._unless_lost(child), faults)

    def _unless_lost(self, child: Child) -> Callable[[bytes], None]:
        def then(answer: bytes) -> None:
            if answer in (b"LOST", b"CANCELLED"):  # raised in the task as LeaseLost, or JobCancelled
                child.rest()

        return then

    def _attempt(self, child: Child) -> Attempt:
        assert child.attempt is not None
        return child.attempt

    def checkpoint(self, child: Child, faults: Faults) -> None:
        attempt = child.attempt
        assert attempt is not None
        data = f'"c{self.world.new_token()}"'

        def op() -> bool:
            fence = attempt.claim.fence
            return save_checkpoint(self.world.pulse, attempt.id, fence, data, retention=SETTINGS.retention)

        def then(ok: bool) -> None:
            if not ok:  # LeaseLost is raised in the task
                child.rest()

        self._do(child, op, then, faults)

    def kill_child(self, child: Child) -> None:
        """A pool process ends."""
        self.world.dead.add((child.worker.node.owner, child.pid))
        self.notices.append(Notice(child.worker, child.pid, child.message, child.attempt is not None))
        child.rest()
        child.pid = next(child.worker.pids)


def child_of(job_id: str) -> str:
    """Return the id of the job's continuation."""
    return f"{job_id}.0"
