"""The shared memory through which a running job is seen from outside its process.

A pool child that computes may hold the GIL for minutes, so it must not have to speak. It only
writes to its slot, with plain memory stores, and another process reads it. Each slot has one
writer (the child) and any number of readers.

Algorithm: sequence locks (C. Lameter, "Effective synchronization on Linux/NUMA systems", 2005).
A writer makes a counter odd, writes, and makes it even; a reader copies, and keeps the copy only if
the counter was even and did not move. A slot has three: who runs, progress, and texts. So a job that
tells its progress without pause cannot hide who it is. Processors that reorder stores may deceive
a sequence lock; the identity therefore carries a checksum. Ending is one store, as is the word that
says which process the slot belongs to. A reader tries a few times; what it could not read is
``UNREADABLE``, which never means idle. Linux only (memfd).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import Enum
from mmap import mmap
from threading import Lock
from time import sleep
from typing import TYPE_CHECKING, Final, Literal
from zlib import crc32

from denyut.tasks.locks.places import PLACE_SIZE, PLACES, Place
from denyut.tasks.slot import (
    BODY,
    CANCEL,
    CHECK,
    FENCE,
    FLAGS,
    IDENTITY,
    IDENTITY_AT,
    LIFE,
    LOCKS,
    LOST,
    MAP,
    MAX_RUNTIME,
    PID_MASK,
    PROGRESS_SEQ,
    REST,
    SEQ,
    SIZE,
    STAGE_AT,
    TEXT_SEQ,
    UNIT_AT,
    UNLOCKED,
    Slot,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "CANCEL",
    "LOST",
    "UNLOCKED",
    "UNREADABLE",
    "Slot",
    "SlotBlock",
    "SlotState",
    "Unreadable",
    "current_block",
    "use_block",
]

_TRIES = 8
_MAGIC = int.from_bytes(b"denyut02", "little")


class Unreadable(Enum):
    """The type of ``UNREADABLE``: the writer was at work at every try. Not idle."""

    UNREADABLE = "unreadable"


UNREADABLE: Final = Unreadable.UNREADABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotState:
    """A consistent copy of a busy slot. ``started_ns`` is of this host's monotonic clock.

    ``done`` and ``total`` are None if the job has not told; ``progress_seq`` and ``stage_seq`` count
    how often it told progress and stage. ``life`` stands for one process's use of the slot. ``in_body``:
    the job's own code runs, and a signal interrupts it. ``locks``: which of its places for locks are
    used, a bit each. ``max_runtime``: seconds for which its lease is renewed at most; 0: no end.
    """

    index: int
    life: int
    pid: int
    job_id: str
    task: str
    partition: int
    fence: int
    attempt: int
    owner: str
    delivery_tag: str
    started_ns: int
    flags: int
    in_body: bool
    progress_seq: int
    done: float | None
    total: float | None
    unit: str
    stage_seq: int
    stage: str
    locks: int = 0
    max_runtime: float = 0.0


class SlotBlock:
    """All slots of one worker. Made before the first fork, so that every pool child has it.

    Args:
        fd: of memory made by :meth:`create`, which may belong to another process.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._memory = mmap(fd, os.fstat(fd).st_size)
        self._view = memoryview(self._memory)
        self._words = self._view.cast("Q")
        if self._words[0] != _MAGIC:
            raise ValueError(f"file descriptor {fd} holds no slots of this version of Denyut")
        self.capacity = self._words[1]
        self._slots: dict[int, Slot] = {}
        self._flag_lock = Lock()
        self._take_lock = Lock()
        self._taken: set[int] = set()
        # Only readers use what follows.
        self._last: dict[int, SlotState] = {}
        self._buried: dict[int, int] = {}

    @classmethod
    def create(cls, capacity: int = 4096) -> SlotBlock:
        """Reserve ``capacity`` slots of 1280 bytes, and their locks. Only what is used takes memory."""
        fd = os.memfd_create("denyut-slots")
        os.ftruncate(fd, _first_lock(capacity) + capacity * PLACES * PLACE_SIZE)
        os.pwrite(fd, _MAGIC.to_bytes(8, "little") + capacity.to_bytes(8, "little"), 0)
        return cls(fd)

    def slot(self, index: int) -> Slot:
        """Return the writer's end of slot ``index``.

        Raises:
            IndexError: if there are not so many.
        """
        if index not in self._slots:
            self._slots[index] = Slot(self._memory, self._view, index, self._slot_at(index))
        return self._slots[index]

    def lock_place(self, index: int, number: int) -> Place:
        """Return place ``number`` (from 0 to ``PLACES`` - 1) for a lock of the job in slot ``index``."""
        self._slot_at(index)
        at = _first_lock(self.capacity) + (index * PLACES + number) * PLACE_SIZE
        return Place(self._memory, self._words, at)

    def take(self) -> Slot:
        """Return the writer's end of a slot that nobody has, for a thread of this process; see :meth:`give`.

        Only for a process that is not one of a pool: those have a slot by their number.
        """
        with self._take_lock:
            index = next(i for i in range(self.capacity) if i not in self._taken)
            self._taken.add(index)
            return self.slot(index)

    def give(self, slot: Slot) -> None:
        """Give back what :meth:`take` returned. For any other slot nothing happens."""
        with self._take_lock:
            self._taken.discard(slot.index)

    def read(self, index: int) -> SlotState | Literal[Unreadable.UNREADABLE] | None:
        """Return what runs in slot ``index``: None if nothing does, UNREADABLE if that cannot be said."""
        base = self._slot_at(index) // 8
        for attempt in range(_TRIES):
            if attempt:
                sleep(0)  # the writer may be waiting for this very core
            state = self._try_read(index, base)
            if state is None:
                self._last.pop(index, None)
                return None
            if state is not UNREADABLE:
                self._last[index] = state
                return state
        return UNREADABLE

    def last(self, index: int) -> SlotState | None:
        """Return the newest good copy of a slot that has not been seen idle since."""
        return self._last.get(index)

    def active(self) -> Iterator[tuple[int, SlotState | Literal[Unreadable.UNREADABLE]]]:
        """Yield every slot that is not idle. Slots that were never used are not looked at."""
        for index in self._used():
            state = self.read(index)
            if state is not None:
                yield index, state

    def lives(self) -> Iterator[tuple[int, int, int]]:
        """Yield (index, life, pid) of every slot that a process took and that was not buried."""
        for index in self._used():
            life = self._words[self._slot_at(index) // 8 + LIFE]
            if self._buried.get(index) != life:
                yield index, life, life & PID_MASK

    def bury(self, index: int, life: int) -> None:
        """Take everything that the process of ``life`` left in its slot for idle: it is dead.

        The slot itself is not written: its next owner may be at work in it already.
        """
        self._buried[index] = life
        last = self._last.get(index)
        if last is not None and last.life == life:
            del self._last[index]

    def flag(self, index: int, fence: int, bits: int) -> bool:
        """Set flags (``LOST``, ...) for the job with ``fence``; False if that is not in the slot."""
        base = self._slot_at(index) // 8
        with self._flag_lock:
            if self._words[base + FENCE] != fence:
                return False
            old = self._words[base + FLAGS]
            if old >> 8 == fence:
                bits |= old & 0xFF
            # The fence goes with the flags: should the slot's next job begin here and now, it is not meant.
            self._words[base + FLAGS] = fence << 8 | bits
            return True

    def close(self) -> None:
        """Give the memory back to the system, unless another process has it too."""
        for slot in self._slots.values():
            slot.release()
        self._slots.clear()
        self._words.release()
        self._view.release()
        self._memory.close()
        os.close(self.fd)

    def _slot_at(self, index: int) -> int:
        if not 0 <= index < self.capacity:
            raise IndexError(f"slot {index}: the block has {self.capacity}, from 0")
        return _first_slot(self.capacity) + index * SIZE

    def _used(self) -> Iterator[int]:
        index = -1
        while (index := self._memory.find(b"\1", MAP + index + 1, MAP + self.capacity) - MAP) >= 0:
            yield index

    def _try_read(self, index: int, base: int) -> SlotState | Literal[Unreadable.UNREADABLE] | None:
        words = self._words
        life, seq = words[base + LIFE], words[base + SEQ]
        progress_seq, text_seq = words[base + PROGRESS_SEQ], words[base + TEXT_SEQ]
        raw = self._memory[base * 8 : base * 8 + SIZE]
        steady_progress = not progress_seq & 1 and words[base + PROGRESS_SEQ] == progress_seq
        steady_text = not text_seq & 1 and words[base + TEXT_SEQ] == text_seq
        flags, body, locks = words[base + FLAGS], words[base + BODY], words[base + LOCKS]
        limit = words[base + MAX_RUNTIME]
        if self._buried.get(index) == life or words[base + FENCE] == 0:
            return None
        if seq & 1 or words[base + SEQ] != seq or words[base + LIFE] != life:
            return UNREADABLE
        steady = (steady_progress, steady_text)
        return self._parse(index, life, raw, flags=flags, body=body, locks=locks, limit=limit, steady=steady)

    def _parse(
        self,
        index: int,
        life: int,
        raw: bytes,
        *,
        flags: int,
        body: int,
        locks: int,
        limit: int,
        steady: tuple[bool, bool],
    ) -> SlotState | Literal[Unreadable.UNREADABLE]:
        fence, started, attempt, partition, lengths = IDENTITY.unpack_from(raw, FENCE * 8)
        check, progress_seq, done, total, _, stage_seq, text_lengths = REST.unpack_from(raw, CHECK * 8)
        a, b, c, d = lengths.to_bytes(8, "little")[:4]
        blob = raw[IDENTITY_AT : IDENTITY_AT + a + b + c + d]
        if crc32(blob, crc32(raw[FENCE * 8 : CHECK * 8])) != check:
            return UNREADABLE
        last = self._last.get(index)
        before = last if last is not None and (last.life, last.fence) == (life, fence) else None
        unit = raw[UNIT_AT : UNIT_AT + (text_lengths >> 8)].decode("utf-8", "replace")
        stage = raw[STAGE_AT : STAGE_AT + (text_lengths & 0xFF)].decode("utf-8", "replace")
        steady_progress, steady_text = steady
        if not steady_text:
            unit, stage, stage_seq = (before.unit, before.stage, before.stage_seq) if before else ("", "", 0)
        told: tuple[float | None, float | None] = (
            (_known(done), _known(total)) if progress_seq else (None, None)
        )
        if not steady_progress:
            told = (before.done, before.total) if before else (None, None)
        return SlotState(
            index=index,
            life=life,
            pid=life & PID_MASK,
            job_id=blob[:a].decode(),
            task=blob[a : a + b].decode(),
            owner=blob[a + b : a + b + c].decode(),
            delivery_tag=blob[a + b + c :].decode(),
            partition=partition,
            fence=fence,
            attempt=attempt,
            started_ns=started,
            flags=flags & 0xFF if flags >> 8 == fence else 0,
            in_body=body == fence,
            progress_seq=progress_seq + 1 >> 1,
            done=told[0],
            total=told[1],
            unit=unit,
            stage_seq=stage_seq,
            stage=stage,
            max_runtime=limit / 1000,
            locks=locks,
        )


_block: SlotBlock | None = None


def current_block() -> SlotBlock | None:
    """Return the slots of this worker; None where no worker has made any."""
    return _block


def use_block(block: SlotBlock | None) -> None:
    """Make ``block`` the slots of this process and of those forked from here on."""
    global _block  # noqa: PLW0603 - what a fork inherits has to hang somewhere
    _block = block


def _first_slot(capacity: int) -> int:
    return (MAP + capacity + 63) // 64 * 64


def _first_lock(capacity: int) -> int:
    return (_first_slot(capacity) + capacity * SIZE + 63) // 64 * 64


def _known(number: float) -> float | None:
    return None if number != number else number  # noqa: PLR0124 - only NaN differs from itself
