"""What a process uses, and whether it still runs, as Linux tells in /proc (proc(5))."""

from __future__ import annotations

import os
from typing import NamedTuple

__all__ = ["Usage", "has_ended", "usage"]

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 2**20


class Usage(NamedTuple):
    """Of one process: resident memory now and at most (MiB), user and system time of all threads (s)."""

    rss_mb: float
    rss_peak_mb: float | None  # None where the kernel does not tell
    cpu_s: float


def usage(pid: int) -> Usage | None:
    """Return what process ``pid`` uses; None if that is not to be had, as when it has ended."""
    fields = _stat(pid)
    if fields is None or fields[0] in (b"Z", b"X"):
        return None
    cpu_s = (int(fields[11]) + int(fields[12])) / _TICK
    return Usage(int(fields[21]) * _PAGE_MB, _peak_mb(pid), cpu_s)


def has_ended(pid: int) -> bool:
    """Return whether ``pid`` is certainly no running process. A zombie has ended."""
    fields = _stat(pid)
    if fields is not None:
        return fields[0] in (b"Z", b"X")
    return _stat(os.getpid()) is not None  # without a /proc that tells of us, nothing is certain


def _stat(pid: int) -> list[bytes] | None:
    text = _read(f"/proc/{pid}/stat")
    # The name may hold spaces and brackets: what follows the last bracket is plain.
    return text[text.rindex(b")") + 2 :].split() if text else None


def _peak_mb(pid: int) -> float | None:
    text = _read(f"/proc/{pid}/status")
    at = text.find(b"VmHWM:")
    return int(text[at + 6 : text.index(b"kB", at)]) / 1024 if at >= 0 else None


def _read(path: str) -> bytes:
    # Every beat comes here for every running job: plain calls cost a third of a file object.
    try:
        fd = os.open(path, os.O_RDONLY)
    except (FileNotFoundError, PermissionError):
        return b""
    try:
        return os.read(fd, 4096)
    except ProcessLookupError:
        return b""
    finally:
        os.close(fd)
