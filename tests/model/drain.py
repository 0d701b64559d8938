"""The end of an example: nothing goes wrong any more, everybody works on, and everything must end.

*No job lost* is a promise of what comes in the end, so it is checked here: each accepted job is ended
and settled, its continuation was sent, nothing stands in an index, and each key is free or answers.
"""

from __future__ import annotations

from model.attempts import child_of
from model.faults import Faults, Violation
from model.invariants import LIVE
from model.producers import Order, Producers
from model.recoverers import Recoverers
from model.workers import Workers
from model.world import SETTINGS, World

from denyut.states import State
from denyut.tasks.claim import us

ROUNDS = 60
PATIENCE = 61.0


def drain(world: World, producers: Producers, workers: Workers, recoverers: Recoverers) -> None:
    """Work until nothing is left to do, and check that nothing is lost.

    Raises:
        Violation: if it does not come to an end, or something was lost.
    """
    producers.unanswered.clear()
    recoverers.found.clear()  # those who had looked look again
    for _ in range(ROUNDS):
        _work(world, workers)
        if _is_quiet(world, workers):
            break
        world.advance(us(SETTINGS.lease_ttl) * 2)
        recoverers.round()
    else:
        live = {
            job_id: view.state
            for job_id, view in world.oracle.jobs.items()
            if not view.settled and view.state
        }
        raise Violation(f"after {ROUNDS} rounds without faults there is still work to do: {live}")
    _nothing_is_lost(world, producers)
    world.advance(us(PATIENCE))  # a key that was held for a job that never came is free again
    _keys_are_free_or_answer(world, producers)


def _work(world: World, workers: Workers) -> None:
    """Everything that is under way goes on, until there is no message left."""
    while workers.owed:
        workers.arrive(workers.owed[0], delay=0.0, faults=Faults())
    for notice in list(workers.notices):
        workers.notice(notice, Faults(), watched=False)
    for node in workers.nodes:
        workers.beat(node, Faults())
        world.broker.ready += node.in_hand
        node.in_hand = []
    for _ in range(1000):
        for child in workers.children:
            while child.pending is not None:
                workers.again(child)
            _go_on(workers, child)
        if not world.broker.ready:
            return
        workers.start(workers.children[0], world.broker.take(world.broker.ready[0]), Faults())
    raise Violation("messages without end")


def _go_on(workers: Workers, child) -> None:
    attempt = child.attempt
    if attempt is None:
        child.rest()
        return
    if attempt.phase == "body":
        workers.end(child, "complete", Faults())
    if child.attempt is not None:
        workers.send_continuation(child, Faults())
        workers.settle(child, Faults())


def _is_quiet(world: World, workers: Workers) -> bool:
    views = world.oracle.jobs.values()
    open_ = any(view.state in LIVE or (view.terminal and not view.settled) for view in views)
    return not (open_ or world.broker.ready or workers.owed)


def _nothing_is_lost(world: World, producers: Producers) -> None:
    oracle = world.oracle
    for part in oracle.seen.parts:
        for index in ("leases", "schedule", "queued", "held"):
            if left := getattr(part, index):
                raise Violation(f"at rest, {index} still has {left}")
    for order in producers.orders:
        history = oracle.histories.get(order.id)
        if history is None or history.data_lost or not order.continues:
            continue
        if history.owes and not oracle.histories[child_of(order.id)].accepted:
            raise Violation(f"{order.id} has ended, and its continuation was never sent")


def _keys_are_free_or_answer(world: World, producers: Producers) -> None:
    for key in ("a", "b"):
        for args in (0, 1):
            order = Order(id=producers.draw(0, key), key=key, args=args)
            assert order.digest is not None
            entry = world.oracle.entries.get(order.digest)
            holder = world.oracle.jobs[entry.job].state if entry and entry.job in world.oracle.jobs else None
            came = producers.enqueue(order, Faults())
            if holder == State.COMPLETED:
                if came not in (f"answered by {entry.job}", "conflict"):
                    raise Violation(f"the key of the completed {entry.job} does not answer: {came}")
            elif came != "sent" and args == 0:
                raise Violation(f"the key {key} is not free: {came}")
