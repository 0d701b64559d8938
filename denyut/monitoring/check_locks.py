"""The check of the locks of the user's own code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from denyut.monitoring.check import Check
from denyut.monitoring.partition import read_partitions
from denyut.monitoring.text import clean

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["check_locks"]

#: More than so many are counted, and not read one by one.
_MANY = 1000


def check_locks(pulse: Denyut, client: Any) -> Check:
    """Say how many locks are held, and which is the oldest."""
    count = sum(partition.locks for partition in read_partitions(pulse, client))
    held = pulse.locks.list() if 0 < count <= _MANY else []
    if not held:
        return Check.ok("locks", f"{count} lock(s) are held")
    oldest = held[0]
    who = f"job {oldest.job}" if oldest.job else f"process {oldest.pid} on {oldest.host}"
    longest = f"the oldest, {clean(oldest.name)!r}, for {oldest.held_s:.1f} s by {clean(who)}"
    return Check.ok("locks", f"{len(held)} lock(s) are held; {longest}")
