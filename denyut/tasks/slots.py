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
from struct import Struct
from threading import Lock
from time import monotonic_ns, sleep
from typing import TYPE_CHECKING, Final, Literal
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "CANCEL", "LOST", "UNREADABLE", "Slot", "SlotBlock", "SlotState", "Unreadable", "current_block",
    "current_slot", "use_block",
]  # fmt: skip

LOST: Final = 1
CANCEL: Final = 2

_TRIES = 8
_MOST_ID, _MOST_STAGE, _MOST_UNIT = 255, 64, 16
_MOST_FENCE = 1 << 55

# The block: a page of header, a byte a slot that says whether it was ever used, the slots.
_MAGIC = int.from_bytes(b"denyut01", "little")
_MAP = 4096
_SIZE = 1280

# A slot, in words of 8 bytes, followed by its texts.
_LIFE = 0  # pid and a part of the clock: one process's use of the slot
_FLAGS = 1  # fence << 8 | flags; the only word that the reader writes
_SEQ = 2  # of words 3 to 8 and the identity texts
_FENCE = 3  # 0 = idle
_CHECK = 8
_PROGRESS_SEQ, _DONE, _TOTAL = 9, 10, 11
_TEXT_SEQ, _STAGE_SEQ, _LENGTHS = 12, 13, 14
_UNIT_AT, _STAGE_AT, _IDENTITY_AT = 120, 136, 200
_IDENTITY = Struct("=5Q")  # words 3 to 7: fence, started, attempt, partition, lengths of the texts
_REST = Struct("=QQddQQQ")  # words 8 to 14

_PID_BITS = 22  # the kernel's PID_MAX_LIMIT is 2 ** 22
_PID_MASK = (1 << _PID_BITS) - 1
_NAN = float("nan")


class Unreadable(Enum):
    """The type of ``UNREADABLE``: the writer was at work at every try. Not idle."""

    UNREADABLE = "unreadable"


UNREADABLE: Final = Unreadable.UNREADABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotState:
    """A consistent copy of a busy slot. ``started_ns`` is of this host's monotonic clock.

    ``done`` and ``total`` are None if the job has not told; ``progress_seq`` and ``stage_seq`` count
    how often it told progress and stage. ``life`` stands for one process's use of the slot.
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
    progress_seq: int
    done: float | None
    total: float | None
    unit: str
    stage_seq: int
    stage: str


class Slot:
    """The writer's end of one slot. Only the process whose slot it is may use it."""

    __slots__ = (
        "_at", "_doubles", "_fence", "_memory", "_pid", "_progress_seq", "_seq", "_stage_seq", "_text_seq",
        "_words", "index",
    )  # fmt: skip

    def __init__(self, block: SlotBlock, index: int) -> None:
        self.index = index
        self._memory = block._memory  # noqa: SLF001 - two ends of one thing
        self._at = block._slot_at(index)  # noqa: SLF001
        view = block._view[self._at : self._at + _SIZE]  # noqa: SLF001
        self._words = view.cast("Q")
        self._doubles = view.cast("d")
        view.release()
        self._pid = 0
        self._fence = self._seq = self._progress_seq = self._text_seq = self._stage_seq = 0

    def enter(self) -> None:
        """Take the slot over for this process, idle. Called when a pool child starts, and by begin."""
        words, pid = self._words, os.getpid()
        words[_FENCE] = self._fence = 0  # first: what a dead predecessor left is not this process's
        self._seq = words[_SEQ] + (words[_SEQ] & 1)
        words[_SEQ] = self._seq
        words[_LIFE] = (monotonic_ns() >> 10) << _PID_BITS & (1 << 64) - 1 | pid
        self._memory[_MAP + self.index] = 1
        self._pid = pid

    def begin(
        self,
        *,
        job_id: str,
        task: str,
        partition: int,
        fence: int,
        attempt: int,
        owner: str,
        delivery_tag: str = "",
    ) -> None:
        """Say that this process runs the attempt ``attempt`` of a job under the lease ``owner#fence``.

        Raises:
            ValueError: for a text over 255 bytes of UTF-8, an empty id, or a fence that is not positive.
        """
        if self._pid != os.getpid():
            self.enter()
        texts = [_identity_text(name, text) for name, text in
                 (("job_id", job_id), ("task", task), ("owner", owner), ("delivery_tag", delivery_tag))]  # fmt: skip
        if not job_id or not 0 < fence < _MOST_FENCE:
            raise ValueError(
                f"job_id={job_id!r}, fence={fence!r}: need a non-empty id and a fence from 1 to 2**55"
            )
        a, b, c, d = texts
        blob = a + b + c + d
        head = _IDENTITY.pack(
            fence, monotonic_ns(), attempt, partition, len(a) | len(b) << 8 | len(c) << 16 | len(d) << 24
        )
        words, memory, at = self._words, self._memory, self._at
        words[_SEQ] = self._seq + 1
        memory[at + _IDENTITY_AT : at + _IDENTITY_AT + len(blob)] = blob
        memory[at + _FENCE * 8 : at + _CHECK * 8] = head
        words[_CHECK] = crc32(blob, crc32(head))
        words[_FLAGS] = words[_PROGRESS_SEQ] = words[_TEXT_SEQ] = words[_STAGE_SEQ] = words[_LENGTHS] = 0
        self._seq += 2
        words[_SEQ] = self._seq
        self._fence = fence
        self._progress_seq = self._text_seq = self._stage_seq = 0

    def progress(self, done: float, total: float | None) -> None:
        """Tell how far the job got.

        Raises:
            TypeError: if one of them is not a number.
        """
        words, doubles = self._words, self._doubles
        self._progress_seq = seq = self._progress_seq + 2
        words[_PROGRESS_SEQ] = seq - 1
        try:
            doubles[_DONE] = done
            doubles[_TOTAL] = _NAN if total is None else total
        except (TypeError, ValueError, OverflowError) as exc:
            raise TypeError(f"progress({done!r}, {total!r}): done and total must be numbers") from exc
        finally:
            words[_PROGRESS_SEQ] = seq

    def stage(self, name: str) -> None:
        """Tell what the job does now. Cut after 64 bytes of UTF-8, never inside a character."""
        self._stage_seq += 1
        self._text(_cut(name, _MOST_STAGE), _STAGE_AT, 0xFF00, 0)

    def unit(self, name: str) -> None:
        """Tell what ``done`` and ``total`` count. Cut after 16 bytes of UTF-8."""
        self._text(_cut(name, _MOST_UNIT), _UNIT_AT, 0xFF, 8)

    def end(self) -> None:
        """Say that this process is idle. May be called twice."""
        self._words[_FENCE] = self._fence = 0

    @property
    def flags(self) -> int:
        """``LOST`` and ``CANCEL``, as the heartbeat has set them for the job that began here."""
        value = self._words[_FLAGS]
        return value & 0xFF if value and value >> 8 == self._fence else 0

    def _text(self, text: bytes, offset: int, keep: int, shift: int) -> None:
        words, start = self._words, self._at + offset
        self._text_seq = seq = self._text_seq + 2
        words[_TEXT_SEQ] = seq - 1
        self._memory[start : start + len(text)] = text
        words[_LENGTHS] = words[_LENGTHS] & keep | len(text) << shift
        words[_STAGE_SEQ] = self._stage_seq
        words[_TEXT_SEQ] = seq

    def release(self) -> None:
        """Let go of the memory, so that the block can be closed."""
        self._words.release()
        self._doubles.release()


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
        # Only readers use what follows.
        self._last: dict[int, SlotState] = {}
        self._buried: dict[int, int] = {}

    @classmethod
    def create(cls, capacity: int = 4096) -> SlotBlock:
        """Reserve ``capacity`` slots of 1280 bytes. Memory is used only by slots that are used."""
        fd = os.memfd_create("denyut-slots")
        os.ftruncate(fd, _first_slot(capacity) + capacity * _SIZE)
        os.pwrite(fd, _MAGIC.to_bytes(8, "little") + capacity.to_bytes(8, "little"), 0)
        return cls(fd)

    def slot(self, index: int) -> Slot:
        """Return the writer's end of slot ``index``.

        Raises:
            IndexError: if there are not so many.
        """
        if index not in self._slots:
            self._slots[index] = Slot(self, index)
        return self._slots[index]

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
            life = self._words[self._slot_at(index) // 8 + _LIFE]
            if self._buried.get(index) != life:
                yield index, life, life & _PID_MASK

    def bury(self, index: int, life: int) -> None:
        """Take everything that the process of ``life`` left in its slot for idle: it is dead.

        The slot itself is not written: its next owner may be at work in it already.
        """
        self._buried[index] = life
        last = self._last.get(index)
        if last is not None and last.life == life:
            del self._last[index]

    def flag(self, index: int, fence: int, bits: int) -> bool:
        """Set ``LOST`` or ``CANCEL`` for the job with ``fence``; False if it is not in the slot (any more)."""
        base = self._slot_at(index) // 8
        with self._flag_lock:
            if self._words[base + _FENCE] != fence:
                return False
            old = self._words[base + _FLAGS]
            if old >> 8 == fence:
                bits |= old & 0xFF
            # The fence goes with the flags: should the slot's next job begin here and now, it is not meant.
            self._words[base + _FLAGS] = fence << 8 | bits
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
        return _first_slot(self.capacity) + index * _SIZE

    def _used(self) -> Iterator[int]:
        index = -1
        while (index := self._memory.find(b"\1", _MAP + index + 1, _MAP + self.capacity) - _MAP) >= 0:
            yield index

    def _try_read(self, index: int, base: int) -> SlotState | Literal[Unreadable.UNREADABLE] | None:
        words = self._words
        life, seq = words[base + _LIFE], words[base + _SEQ]
        progress_seq, text_seq = words[base + _PROGRESS_SEQ], words[base + _TEXT_SEQ]
        raw = self._memory[base * 8 : base * 8 + _SIZE]
        steady_progress = not progress_seq & 1 and words[base + _PROGRESS_SEQ] == progress_seq
        steady_text = not text_seq & 1 and words[base + _TEXT_SEQ] == text_seq
        flags = words[base + _FLAGS]
        if self._buried.get(index) == life or words[base + _FENCE] == 0:
            return None
        if seq & 1 or words[base + _SEQ] != seq or words[base + _LIFE] != life:
            return UNREADABLE
        return self._parse(index, life, raw, flags, steady_progress=steady_progress, steady_text=steady_text)

    def _parse(
        self, index: int, life: int, raw: bytes, flags: int, *, steady_progress: bool, steady_text: bool
    ) -> SlotState | Literal[Unreadable.UNREADABLE]:
        fence, started, attempt, partition, lengths = _IDENTITY.unpack_from(raw, _FENCE * 8)
        check, progress_seq, done, total, _, stage_seq, text_lengths = _REST.unpack_from(raw, _CHECK * 8)
        a, b, c, d = lengths.to_bytes(8, "little")[:4]
        blob = raw[_IDENTITY_AT : _IDENTITY_AT + a + b + c + d]
        if crc32(blob, crc32(raw[_FENCE * 8 : _CHECK * 8])) != check:
            return UNREADABLE
        last = self._last.get(index)
        before = last if last is not None and (last.life, last.fence) == (life, fence) else None
        unit = raw[_UNIT_AT : _UNIT_AT + (text_lengths >> 8)].decode("utf-8", "replace")
        stage = raw[_STAGE_AT : _STAGE_AT + (text_lengths & 0xFF)].decode("utf-8", "replace")
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
            pid=life & _PID_MASK,
            job_id=blob[:a].decode(),
            task=blob[a : a + b].decode(),
            owner=blob[a + b : a + b + c].decode(),
            delivery_tag=blob[a + b + c :].decode(),
            partition=partition,
            fence=fence,
            attempt=attempt,
            started_ns=started,
            flags=flags & 0xFF if flags >> 8 == fence else 0,
            progress_seq=progress_seq + 1 >> 1,
            done=told[0],
            total=told[1],
            unit=unit,
            stage_seq=stage_seq,
            stage=stage,
        )


_block: SlotBlock | None = None


def current_block() -> SlotBlock | None:
    """Return the slots of this worker; None where no worker has made any."""
    return _block


def use_block(block: SlotBlock | None) -> None:
    """Make ``block`` the slots of this process and of those forked from here on."""
    global _block  # noqa: PLW0603 - what a fork inherits has to hang somewhere
    _block = block


def current_slot() -> Slot | None:
    """Return this process's slot: that of its number in the pool, the first where there is no pool."""
    if _block is None:
        return None
    from billiard import current_process

    return _block.slot(getattr(current_process(), "index", 0) or 0)


def _first_slot(capacity: int) -> int:
    return (_MAP + capacity + 63) // 64 * 64


def _identity_text(name: str, text: str) -> bytes:
    encoded = text.encode()
    if len(encoded) > _MOST_ID:
        raise ValueError(
            f"{name}={text[:40]!r}...: has {len(encoded)} bytes of UTF-8, at most {_MOST_ID} fit"
        )
    return encoded


def _cut(text: str, most: int) -> bytes:
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= most:
        return encoded
    return encoded[:most].decode("utf-8", "ignore").encode()


def _known(number: float) -> float | None:
    return None if number != number else number  # noqa: PLR0124 - only NaN differs from itself
