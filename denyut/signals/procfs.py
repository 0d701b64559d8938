"""What a process uses: memory and CPU time, as Linux tells in /proc."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

__all__ = ["Usage", "usage"]

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 2**20


class Usage(NamedTuple):
    """``rss_mb``: resident memory in MiB. ``cpu_s``: user and system time of all threads, in seconds."""

    rss_mb: float
    cpu_s: float


def usage(pid: int) -> Usage | None:
    """Return what process ``pid`` uses; None if it is gone (or a zombie, which uses nothing)."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name may hold spaces and brackets: what follows the last bracket is plain (proc(5)).
    fields = text[text.rindex(b")") + 2 :].split()
    if fields[0] in (b"Z", b"X"):
        return None
    return Usage(int(fields[21]) * _PAGE_MB, (int(fields[11]) + int(fields[12])) / _TICK)
