"""A producer that keeps what is sent instead of publishing it.

While one is active every enqueue of this context passes the door as ever, with all its checks, and its
message is built as ever; but the door makes no record, and hands message and intent to the keeper. No
connection is opened.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from denyut.errors import NotKeepable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from denyut.app import Denyut
    from denyut.tasks.envelope import Envelope
    from denyut.tasks.intent import Intent

__all__ = ["Keeper", "active_keeper", "keeping"]

_active: ContextVar[Keeper | None] = ContextVar("denyut_keeper", default=None)


class Keeper:
    """Stands in for a producer of kombu.

    ``kept`` are the intents and messages of the jobs that were sent, in order.
    """

    def __init__(self, pulse: Denyut) -> None:
        connection = pulse.app.connection_for_write()  # connects when first used, which it is not
        self._real: Any = pulse.app.amqp.Producer(connection, auto_declare=False)
        self.kept: list[tuple[Intent, Envelope]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def publish(self, _body: Any, **_: Any) -> None:
        """Drop what is no job's message, such as an event about it: the job has not been sent."""

    def keep(self, intent: Intent, envelope: Envelope) -> None:
        """Keep a job's message.

        Raises:
            NotKeepable: it goes on with a job that runs (a retry, a replacement), instead of a new one.
        """
        if intent.what:
            raise NotKeepable(
                f"task_id={intent.id!r} is the running job itself, and an outbox takes new jobs: leave it out"
            )
        self.kept.append((intent, envelope))


def active_keeper() -> Keeper | None:
    """Return the keeper of this context, or None."""
    return _active.get()


@contextmanager
def keeping(pulse: Denyut) -> Iterator[Keeper]:
    """Let what is sent inside the ``with`` block be kept."""
    keeper = Keeper(pulse)
    token = _active.set(keeper)
    try:
        yield keeper
    finally:
        _active.reset(token)
