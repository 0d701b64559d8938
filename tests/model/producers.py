"""Producers: everything that enqueues, through the door's own reservation."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from model.faults import Died, Faults, Unanswered
from model.world import LIST, SETTINGS, Message, World

from denyut.errors import IdempotencyConflict
from denyut.tasks.door import _Answered, _DoorProducer
from denyut.tasks.envelope import HEADER, Envelope, Stamp
from denyut.tasks.intent import Intent
from denyut.tasks.key import digest_of
from denyut.tasks.node import Node
from denyut.tasks.unique import PLAIN
from denyut.tasks.wire import Wire

TASK, QUEUE = "t", "q"
_NODE = Node("producer", "p", 1)


@dataclass(frozen=True, kw_only=True)
class Order:
    """What one enqueue asks for."""

    id: str
    key: str | None = None
    args: int = 0  # which arguments: the fingerprint follows from them
    delay: float = 0.0
    expires: float | None = None
    frozen: bool = False  # the id was given
    continues: bool = False  # it has callbacks
    pushed: bool = False  # the broker lives in the same Redis: the script pushes the message
    by: str = ""  # whose dispatch of a frozen signature it is

    @property
    def envelope(self) -> Envelope:
        headers = {"id": self.id, "task": TASK, "continues": self.continues, "idempotency_key": self.key}
        return Envelope(f"[[{self.args}], {{}}, {{}}]", "application/json", "utf-8", headers, {}, "", QUEUE)

    def wire(self, token: str) -> Wire | None:
        if not self.pushed:
            return None
        message = {
            "body": self.envelope.body,
            "content-encoding": "utf-8",
            "content-type": "application/json",
            "headers": {**self.envelope.headers, HEADER: token},
            "properties": {"delivery_info": {"exchange": "", "routing_key": QUEUE}},
        }
        return Wire([LIST], json.dumps(message), self.envelope)

    @property
    def digest(self) -> str | None:
        return digest_of(TASK, self.key) if self.key is not None else None


class Producers:
    """Any number of processes that enqueue."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.unanswered: list[tuple[Order, str, int]] = []
        #: Orders as they were taken: their ids may be ordered again.
        self.orders: list[Order] = []

    def draw(self, partition: int, key: str | None) -> str:
        """Return a new id; one that falls into its key's partition if there is a key."""
        digest = digest_of(TASK, key) if key is not None else None
        return self.world.new_id(self.world.keys.partition_of(digest) if digest else partition)

    def order_of(self, job_id: str) -> Order:
        """Return how a job was first asked for."""
        return next(order for order in self.orders if order.id == job_id)

    def enqueue(  # noqa: PLR0911 - one word for each way it can go
        self, order: Order, faults: Faults, *, fails: bool = False, token: str = ""
    ) -> str:
        """Enqueue; returns what came of it."""
        world, token = self.world, token or self.world.new_token()
        intent = Intent(
            id=order.id,
            task=TASK,
            delay=order.delay,
            key=order.key,
            digest=order.digest,
            frozen=order.frozen,
            attempt=None,
            what="",
            retention=SETTINGS.retention,
            token=token,
            by=order.by,
            expires=order.expires,
            unique=PLAIN,
        )
        door: Any = _DoorProducer(world.pulse, None, intent, None)  # type: ignore[arg-type]
        self.orders.append(order)
        try:
            with world.acting(_NODE, faults):
                stamp = door._reserve(order.envelope, order.wire(token))
                if stamp is None:
                    return "scheduled"
                if order.pushed:
                    return "sent"
                if fails:
                    door._unreserve()
                    return "taken back"
                world.publish(order.envelope, stamp)
                return "sent"
        except _Answered as answer:
            return f"answered by {answer.job_id}"
        except IdempotencyConflict:
            return "conflict"
        except Unanswered:
            self.unanswered.append((order, token, world.now))
            return "unanswered"
        except Died:
            return "died"

    def again(self, place: int, patience: int) -> str:
        """Send again what was not answered, if the caller still waits for it."""
        order, token, since = self.unanswered.pop(place)
        if self.world.now - since > patience:
            return "given up"
        return self.enqueue(order, Faults(), token=token)

    def plain_client(self, order: Order) -> None:
        """A client without Denyut: a message, and no record."""
        self.world.broker.ready.append(Message(order.envelope, Stamp()))
