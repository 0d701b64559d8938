"""Stopping the body of a running job: a signal raises in it what the heartbeat has flagged.

The heartbeat sets a flag in the slot, and sends SIGUSR2 to the process. A Python signal handler runs
in the main thread between two instructions, also while that thread sleeps, waits for a lock or reads a
socket, and in C code that looks for signals (as regular expressions do). What it raises is raised in the
body: never in the code around it, and never in another job's. While the body cleans up (in an
``except`` or ``finally``), it is not raised a second time; a body that has swallowed it is told again
at every signal, and is killed when its time is over (see :mod:`denyut.signals.enforcer`).

Only a pool that runs one body in the main thread of its process can be interrupted so: prefork and
solo. In a pool of threads the signal is passed on (:mod:`denyut.tasks.interrupt_threads`). Elsewhere a body
learns it from ``progress()``, ``stage()``, ``check()`` and ``checkpoint()``.
"""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Any

from denyut.tasks.ending import told_to_end, worker_ends
from denyut.tasks.interrupt_threads import ThreadBodies
from denyut.tasks.slot import STOP

if TYPE_CHECKING:
    from collections.abc import Callable

    from denyut.tasks.run import JobRun

__all__ = ["allow", "allow_threads", "interruptibly"]

_allowed = False
_threads: ThreadBodies | None = None  # of a pool of threads
_body: JobRun | None = None  # the run whose body is on, in this process
_before: Any = None  # who had the signal


def allow(yes: bool) -> None:
    """Say whether the bodies of this process, and of those forked from here on, run in its main thread."""
    global _allowed  # noqa: PLW0603 - of the process, as signals are
    _allowed = yes


def allow_threads(yes: bool) -> None:
    """Say whether the bodies of this process run in threads of it. To be called in the main thread."""
    global _threads  # noqa: PLW0603 - of the process, as signals are
    _threads = ThreadBodies() if yes else None
    if yes:
        _install()


def interruptibly(run: JobRun, body: Callable[[], Any]) -> Any:
    """Return what ``body`` returns; meanwhile the heartbeat may stop it.

    Raises:
        JobInterrupt: the body was told to stop, whatever it has made of it.
        BaseException: what the body raised, or that the worker ends.
    """
    before = told_to_end()
    try:
        value = _armed(run, body)
    except BaseException as exc:
        _disarm(run)  # the signal may have come just when it was about to be done
        if run.interrupt not in (None, exc) and not worker_ends(exc, before=before):
            raise run.interrupt from exc
        raise
    if run.interrupt is not None:
        raise run.interrupt
    return value


def _armed(run: JobRun, body: Callable[[], Any]) -> Any:
    slot = run.slot
    if slot is not None and _threads is not None:
        return _threads.run(run, body)
    if slot is None or not _allowed or threading.current_thread() is not threading.main_thread():
        return body()
    global _body  # noqa: PLW0603 - of the process, as signals are
    _install()
    _body = run
    slot.enter_body()
    try:
        if slot.flags:  # told before the signal could be heard
            run.check()
        return body()
    finally:
        _disarm(run)


def _disarm(run: JobRun) -> None:
    global _body  # noqa: PLW0603 - of the process, as signals are
    _body = None
    if run.slot is not None:
        run.slot.leave_body()


def _install() -> None:
    global _before  # noqa: PLW0603 - of the process, as signals are
    handler = signal.getsignal(STOP)
    if handler is not _on_signal:
        _before = handler
        signal.signal(STOP, _on_signal)


def _on_signal(number: int, frame: Any) -> None:
    run = _body
    if run is not None:
        run.heed()
    elif _threads is not None and _threads.tell():
        return
    elif callable(_before):
        _before(number, frame)
