"""A dead letter in words, for the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from denyut.monitoring.text import age, clean, columns

if TYPE_CHECKING:
    from denyut.tasks.dead import AttemptError, DeadLetter

__all__ = ["summary", "told"]


def summary(letter: DeadLetter, now_us: int) -> tuple[Any, ...]:
    """Return the row of a list: id, task, budget, reason, attempts, age."""
    died = age(letter.at, now_us)
    return (letter.id, letter.task, letter.budget, letter.reason, letter.record.attempt, died)


def told(letter: DeadLetter, now_us: int) -> str:
    """Return all that is known of a dead letter, with the traceback of every attempt that has one."""
    record = letter.record
    facts = [
        ("id", letter.id),
        ("task", letter.task),
        ("queue", record.queue),
        ("state", record.state),
        ("budget", letter.budget),
        ("reason", letter.reason),
        ("died", age(letter.at, now_us)),
        ("attempts", record.attempt),
        ("failures", record.failures),
        ("crashes", record.crashes),
        ("args", letter.args),
        ("kwargs", letter.kwargs),
        ("key", record.key),
        ("retry of", record.retry_of),
        ("message", "kept" if letter.message else "not kept: it cannot be retried"),
    ]
    known = [(name, value) for name, value in facts if value not in (None, "")]
    return "\n".join([columns(known), *(_attempt(error, now_us) for error in letter.errors)])


def _attempt(error: AttemptError, now_us: int) -> str:
    who = f" on {error.owner.partition('|')[0]}, pid {error.pid}" if error.owner else ""
    head = f"\nattempt {error.attempt}, {age(error.at, now_us)}{who}: {error.type}: {error.message}"
    lines = [clean(line) for line in error.traceback.rstrip().splitlines()]
    return "\n".join([clean(head.strip()), *(f"    {line}" for line in lines)])
