"""A pool process must not work on unseen when its main process dies: then nobody renews its lease."""

from __future__ import annotations

import ctypes
import os
import signal

__all__ = ["die_with"]

_PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> None:
    """Let the kernel kill this process when ``parent``, which forked it, ends (prctl(2)).

    Celery asks for the same, but through a file name that only glibc has. Ends this process now if the
    parent has ended already.
    """
    prctl = getattr(ctypes.CDLL(None, use_errno=True), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
