"""Where a running job notes the locks that it holds: shared memory, behind the slots (denyut.tasks.slots).

The heartbeat finds them there and renews them, however long the job computes; and there it leaves what
Redis has answered, so that to check a lock is to look at two words. A slot has a few places for locks.
A place has one writer, the job, but for the two words of answers. It is free while its first word is 0:
that is written last when it is filled, and first when it is cleared. A checksum tells a torn copy.
"""

from __future__ import annotations

from struct import Struct
from time import monotonic_ns
from typing import TYPE_CHECKING, Final
from zlib import crc32

from denyut.tasks.locks.steps import Held

if TYPE_CHECKING:
    from mmap import mmap

__all__ = ["PLACES", "PLACE_SIZE", "Place"]

#: How many locks one job can hold at once that are renewed.
PLACES: Final = 16
PLACE_SIZE: Final = 320

# A place, in words of 8 bytes, followed by the token and the name (64 and 200 bytes at most).
_JOB = 0  # fence of the job's attempt; 0 = free
_FENCE, _TTL, _LENGTHS, _CHECK = 1, 2, 3, 4
_ANSWERED, _LOST = 5, 6  # written by the reader, too: when Redis said it is ours (ns); the fence that is lost
_TEXTS = 56
_HEAD = Struct("=3Q")  # words 1 to 3: fence, ttl (us), lengths of the texts


class Place:
    """One place for one lock.

    Args:
        memory: the whole block.
        words: the same, as words of 8 bytes.
        at: where the place begins, in bytes.
    """

    __slots__ = ("_at", "_base", "_memory", "_words")

    def __init__(self, memory: mmap, words: memoryview, at: int) -> None:
        self._memory, self._words, self._at, self._base = memory, words, at, at // 8

    def fill(self, job_fence: int, held: Held) -> None:
        """Note ``held`` as a lock of the attempt with ``job_fence``. For the writer."""
        words, base = self._words, self._base
        token, name = held.token.encode(), held.name.encode()
        head = _HEAD.pack(held.fence, round(held.ttl * 1e6), len(token) | len(name) << 8)
        texts, at = token + name, self._at
        words[base + _JOB] = 0
        self._memory[at + _FENCE * 8 : at + _CHECK * 8] = head
        self._memory[at + _TEXTS : at + _TEXTS + len(texts)] = texts
        words[base + _CHECK] = crc32(texts, crc32(head))
        words[base + _ANSWERED] = round(held.answered * 1e9)
        words[base + _LOST] = 0
        words[base + _JOB] = job_fence

    def clear(self) -> None:
        """Let go of the lock: it is not renewed any more. For the writer."""
        self._words[self._base + _JOB] = 0

    def read(self, job_fence: int, pid: int, job: str) -> Held | None:
        """Return the lock noted by the attempt with ``job_fence``; None if there is none, or half of one."""
        words, base, at = self._words, self._base, self._at
        if words[base + _JOB] != job_fence or words[base + _LOST] == words[base + _FENCE]:
            return None
        raw, check = self._memory[at : at + PLACE_SIZE], words[base + _CHECK]
        answered = words[base + _ANSWERED] / 1e9
        head = raw[_FENCE * 8 : _CHECK * 8]
        fence, ttl, lengths = _HEAD.unpack(head)
        token, name = lengths & 0xFF, lengths >> 8
        texts = raw[_TEXTS : _TEXTS + token + name]
        if words[base + _JOB] != job_fence or crc32(texts, crc32(head)) != check:
            return None
        return Held(texts[token:].decode(), texts[:token].decode(), fence, ttl / 1e6, answered, pid, job)

    def answer(self, fence: int, answered: float | None) -> None:
        """Leave what Redis has said of the lock with ``fence``: when it was asked (s), None: it is lost."""
        words, base = self._words, self._base
        if answered is None:
            words[base + _LOST] = fence
        elif words[base + _FENCE] == fence:
            # Should another lock be noted here and now, its time is put back to that of an earlier beat:
            # then its owner asks Redis himself.
            words[base + _ANSWERED] = round(answered * 1e9)

    @property
    def lost(self) -> bool:
        """Whether the lock noted here is lost."""
        return self._words[self._base + _LOST] == self._words[self._base + _FENCE]

    @property
    def age(self) -> float:
        """Seconds since Redis was asked when it last said that the lock is its owner's."""
        return (monotonic_ns() - self._words[self._base + _ANSWERED]) / 1e9
