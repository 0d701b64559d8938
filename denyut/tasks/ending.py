"""Telling a worker that ends from a task that ends itself.

``sys.exit()`` in a body, Ctrl-C, or any other error that is no ``Exception`` is how that body failed. But
a pool process that is told to end, and a worker that is shut down, unwind the body in the same way: then
nothing has failed, the job was cut short and runs again.
"""

from __future__ import annotations

import sys
from signal import SIGTERM

from billiard import common
from celery.exceptions import WorkerShutdown, WorkerTerminate

__all__ = ["TERMINATED", "told_to_end", "worker_ends"]

#: With which code billiard ends a pool process that was told to end.
TERMINATED = -(256 - SIGTERM)


def told_to_end() -> bool:
    """Whether the handler with which billiard ends a pool process has run in this process."""
    return bool(common._should_have_exited[0])  # noqa: SLF001 - public only from billiard 4.3 on


def worker_ends(exc: BaseException, *, before: bool) -> bool:
    """Return whether ``exc`` means that the worker ends, not that the task has failed.

    Args:
        exc: what left the body. Whatever it is, even an error of its own cleanup, a body that the
            signal has reached is cut short.
        before: what :func:`told_to_end` said before the body began. A body may have swallowed the
            signal, and the process lives on.
    """
    if isinstance(exc, WorkerShutdown | WorkerTerminate):
        return True
    greenlet = sys.modules.get("greenlet")  # how gevent and eventlet end one that was revoked
    if greenlet is not None and isinstance(exc, greenlet.GreenletExit):
        return True
    return told_to_end() and not before
