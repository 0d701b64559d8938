"""Who takes part: worker nodes with their pool processes, and what each is in the middle of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from model.world import Message

from denyut.keys import Keys
from denyut.signals.beat import Beater
from denyut.tasks.claim import Claim
from denyut.tasks.node import Node
from denyut.tasks.slots import SlotState

#: How long a caller goes on sending what was not answered (us): denyut/tasks/patience.py.
PATIENCE = 60_000_000


@dataclass
class Pending:
    """A call whose reply was lost. It is sent again, the same, with the same token."""

    op: Callable[[], Any]
    token: str
    then: Callable[[Any], None]
    until: int


@dataclass(eq=False)
class Attempt:
    """A claimed attempt, from its process' side. ``phase``: body, continuing."""

    id: str
    claim: Claim
    message: Message
    kind: str
    continues: bool
    phase: str = "body"
    sent: bool = False
    told_lost: bool = False
    progress: int = 0
    stage: int = 0


@dataclass(eq=False)
class Child:
    """One pool process: it runs one attempt at a time."""

    worker: Worker
    pid: int
    attempt: Attempt | None = None
    message: Message | None = None  # in its hands, also while it asks for the claim
    pending: Pending | None = None

    @property
    def idle(self) -> bool:
        return self.message is None and self.pending is None

    def rest(self) -> None:
        self.attempt = self.message = self.pending = None


@dataclass(frozen=True)
class Notice:
    """The main process has seen that a child has ended."""

    worker: Worker
    pid: int
    message: Message | None
    running: bool


@dataclass(eq=False)
class Worker:
    """A worker node: a main process, which beats, and two pool processes."""

    name: str
    pids: count[int]
    node: Node = field(init=False)
    children: list[Child] = field(init=False)
    in_hand: list[Message] = field(init=False)
    beater: Beater = field(init=False)
    boots: int = 0

    def boot(self, settings: Any, keys: Keys) -> None:
        """Start, also again after its end: as somebody else."""
        self.boots += 1
        self.node = Node(self.name, f"b{self.boots}", 1)
        self.children = [Child(self, next(self.pids)) for _ in range(2)]
        self.in_hand = []
        self.beater = Beater(settings, keys, Slots(self))  # type: ignore[arg-type]


class Slots:
    """The slots of a worker as its heartbeat sees them."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def states(self, keys: Keys) -> list[SlotState]:
        return [
            _slot(place, child, child.attempt, keys)
            for place, child in enumerate(self._worker.children)
            if child.attempt is not None
        ]

    def flag(self, index: int, fence: int, bits: int) -> bool:
        attempt = self._worker.children[index].attempt
        if attempt is None or attempt.claim.fence != fence:
            return False
        attempt.told_lost = True
        return True


def _slot(place: int, child: Child, attempt: Attempt, keys: Keys) -> SlotState:
    return SlotState(
        index=place,
        life=1,
        pid=1 << 23,  # no process has it, so /proc tells nothing of it
        job_id=attempt.id,
        task="t",
        partition=keys.partition_of(attempt.id),
        fence=attempt.claim.fence,
        attempt=attempt.claim.attempt,
        owner=attempt.claim.owner,
        delivery_tag="",
        started_ns=0,
        flags=0,
        in_body=True,
        progress_seq=attempt.progress,
        done=float(attempt.progress),
        total=None,
        unit="",
        stage_seq=attempt.stage,
        stage=f"s{attempt.stage}" if attempt.stage else "",
    )
