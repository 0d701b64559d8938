"""One slot of the shared memory: how it is laid out, and how its one writer, a pool child, writes it.

Plain stores only: a running job tells its progress here as often as it likes. For the algorithm and
the reader see :mod:`denyut.tasks.slots`.
"""

from __future__ import annotations

import os
from signal import SIGUSR2
from struct import Struct
from time import monotonic_ns
from typing import TYPE_CHECKING, Final
from zlib import crc32

if TYPE_CHECKING:
    from mmap import mmap

__all__ = ["CANCEL", "LOST", "STOP", "UNLOCKED", "Slot"]

LOST: Final = 1
CANCEL: Final = 2
UNLOCKED: Final = 4  # a lock of its own was lost: told by progress() and the like, and by no signal

#: The signal that lets a body look at its flags.
STOP: Final = SIGUSR2

_MOST_ID, _MOST_STAGE, _MOST_UNIT = 255, 64, 16
_MOST_FENCE = 1 << 55

# The block: a page of header, a byte a slot that says whether it was ever used, the slots.
MAP = 4096
SIZE = 1280

# A slot, in words of 8 bytes, followed by its texts.
LIFE = 0  # pid and a part of the clock: one process's use of the slot
FLAGS = 1  # fence << 8 | flags; the only word that the reader writes
SEQ = 2  # of words 3 to 8 and the identity texts
FENCE = 3  # 0 = idle
CHECK = 8
PROGRESS_SEQ, DONE, TOTAL = 9, 10, 11
TEXT_SEQ, STAGE_SEQ, LENGTHS = 12, 13, 14
UNIT_AT, STAGE_AT, IDENTITY_AT = 120, 136, 200
MAX_RUNTIME = 157  # ms after which the heartbeat lets go of the job; 0 = never
LOCKS = 158  # bits: which of its places for locks are used (denyut.tasks.locks.places)
BODY = 159  # the last word: the fence of the job whose body runs, and may be interrupted; else 0
IDENTITY = Struct("=5Q")  # words 3 to 7: fence, started, attempt, partition, lengths of the texts
REST = Struct("=QQddQQQ")  # words 8 to 14

PID_BITS = 22  # the kernel's PID_MAX_LIMIT is 2 ** 22
PID_MASK = (1 << PID_BITS) - 1
_NAN = float("nan")


class Slot:
    """The writer's end of one slot. Only the process whose slot it is may use it.

    Args:
        memory: the whole block.
        whole: the same, as a view.
        index: number of the slot.
        at: where it begins.
    """

    __slots__ = (
        "_at", "_doubles", "_fence", "_memory", "_pid", "_progress_seq", "_seq", "_stage_seq", "_text_seq",
        "_words", "index",
    )  # fmt: skip

    def __init__(self, memory: mmap, whole: memoryview, index: int, at: int) -> None:
        self.index = index
        self._memory = memory
        self._at = at
        view = whole[at : at + SIZE]
        self._words = view.cast("Q")
        self._doubles = view.cast("d")
        view.release()
        self._pid = 0
        self._fence = self._seq = self._progress_seq = self._text_seq = self._stage_seq = 0

    def enter(self) -> None:
        """Take the slot over for this process, idle. Called when a pool child starts, and by begin."""
        words, pid = self._words, os.getpid()
        words[FENCE] = words[BODY] = self._fence = (
            0  # first: what a dead predecessor left is not this process's
        )
        self._seq = words[SEQ] + (words[SEQ] & 1)
        words[SEQ] = self._seq
        words[LIFE] = (monotonic_ns() >> 10) << PID_BITS & (1 << 64) - 1 | pid
        self._memory[MAP + self.index] = 1
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
        max_runtime: float = 0.0,
    ) -> None:
        """Say that this process runs the attempt ``attempt`` of a job under the lease ``owner#fence``.

        Its lease is renewed for ``max_runtime`` seconds at most; 0: for as long as it runs.

        Raises:
            ValueError: for a text over 255 bytes of UTF-8, an empty id, or a fence that is not positive.
        """
        if self._pid != os.getpid():
            self.enter()
        a, b = _identity_text("job_id", job_id), _identity_text("task", task)
        c, d = _identity_text("owner", owner), _identity_text("delivery_tag", delivery_tag)
        if not job_id or not 0 < fence < _MOST_FENCE:
            raise ValueError(
                f"job_id={job_id!r}, fence={fence!r}: need a non-empty id and a fence from 1 to 2**55"
            )
        blob = a + b + c + d
        head = IDENTITY.pack(
            fence, monotonic_ns(), attempt, partition, len(a) | len(b) << 8 | len(c) << 16 | len(d) << 24
        )
        words, memory, at = self._words, self._memory, self._at
        words[SEQ] = self._seq + 1
        memory[at + IDENTITY_AT : at + IDENTITY_AT + len(blob)] = blob
        memory[at + FENCE * 8 : at + CHECK * 8] = head
        words[CHECK] = crc32(blob, crc32(head))
        words[FLAGS] = words[PROGRESS_SEQ] = words[TEXT_SEQ] = words[STAGE_SEQ] = words[LENGTHS] = 0
        words[LOCKS] = 0
        words[MAX_RUNTIME] = round(max_runtime * 1000)
        self._seq += 2
        words[SEQ] = self._seq
        self._fence = fence
        self._progress_seq = self._text_seq = self._stage_seq = 0

    def progress(self, done: float, total: float | None) -> None:
        """Tell how far the job got.

        Raises:
            TypeError: if one of them is not a number.
        """
        words, doubles = self._words, self._doubles
        self._progress_seq = seq = self._progress_seq + 2
        words[PROGRESS_SEQ] = seq - 1
        try:
            doubles[DONE] = done
            doubles[TOTAL] = _NAN if total is None else total
        except (TypeError, ValueError, OverflowError) as exc:
            raise TypeError(f"progress({done!r}, {total!r}): done and total must be numbers") from exc
        finally:
            words[PROGRESS_SEQ] = seq

    def stage(self, name: str) -> None:
        """Tell what the job does now. Cut after 64 bytes of UTF-8, never inside a character."""
        self._stage_seq += 1
        self._text(_cut(name, _MOST_STAGE), STAGE_AT, 0xFF00, 0)

    def unit(self, name: str) -> None:
        """Tell what ``done`` and ``total`` count. Cut after 16 bytes of UTF-8."""
        self._text(_cut(name, _MOST_UNIT), UNIT_AT, 0xFF, 8)

    def enter_body(self) -> None:
        """Say that the job's own code runs from here on, and can be interrupted by a signal."""
        self._words[BODY] = self._fence

    def leave_body(self) -> None:
        """Say that it does not, or no longer."""
        self._words[BODY] = 0

    def end(self) -> None:
        """Say that this process is idle. May be called twice."""
        self._words[FENCE] = self._fence = 0

    @property
    def pid(self) -> int:
        """The process that writes here; 0 before any did. A fork of it must not."""
        return self._pid

    @property
    def locks(self) -> int:
        """Which of its places for locks are used, a bit each. Only the job that began here sets it."""
        return self._words[LOCKS]

    @locks.setter
    def locks(self, bits: int) -> None:
        self._words[LOCKS] = bits

    @property
    def told(self) -> bool:
        """Whether the job that began here has told any progress, unit or stage."""
        return bool(self._progress_seq or self._text_seq)

    @property
    def flags(self) -> int:
        """``LOST``, ``CANCEL``, ``UNLOCKED``, as the heartbeat has set them for the job that began here."""
        value = self._words[FLAGS]
        return value & 0xFF if value and value >> 8 == self._fence else 0

    def _text(self, text: bytes, offset: int, keep: int, shift: int) -> None:
        words, start = self._words, self._at + offset
        self._text_seq = seq = self._text_seq + 2
        words[TEXT_SEQ] = seq - 1
        self._memory[start : start + len(text)] = text
        words[LENGTHS] = words[LENGTHS] & keep | len(text) << shift
        words[STAGE_SEQ] = self._stage_seq
        words[TEXT_SEQ] = seq

    def release(self) -> None:
        """Let go of the memory, so that the block can be closed."""
        self._words.release()
        self._doubles.release()


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
