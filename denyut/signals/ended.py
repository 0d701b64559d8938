"""Whether a pool process that is dead was ended on purpose, by its worker or together with it."""

from __future__ import annotations

import os
import signal
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from denyut.tasks.ending import TERMINATED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["was_ended"]

#: How long the worker's own SIGTERM may come after that of its process (s): a service manager that ends
#: a group of processes sends one signal after another.
_TOGETHER = 0.3
_LOOK_EVERY = 0.01


def was_ended(pid: int, processes: Iterable[Any], draining: Callable[[], bool]) -> bool:
    """Return whether ``pid`` was ended on purpose: no crash of its job.

    Args:
        pid: a process of the pool, which is dead. It may not have been waited for yet.
        processes: billiard's processes of the pool, if it has any.
        draining: whether the whole worker ends.
    """
    if draining() or any(p.pid == pid and getattr(p, "_controlled_termination", False) for p in processes):
        return True
    if not _by_sigterm(pid):
        return False
    deadline = monotonic() + _TOGETHER
    while not draining():
        if monotonic() > deadline:
            return False
        sleep(_LOOK_EVERY)
    return True


def _by_sigterm(pid: int) -> bool:
    """Whether SIGTERM has ended ``pid``, which stays to be waited for (waitid(2))."""
    try:
        how = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    except ChildProcessError:
        return False  # the pool was faster
    if how is None:
        return False
    if how.si_code == os.CLD_EXITED:
        return how.si_status == TERMINATED & 0xFF
    return how.si_status == signal.SIGTERM
