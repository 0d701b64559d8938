"""``app.denyut.outbox``: enqueueing with a transaction of the application."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from celery import Signature
from celery.canvas import _chain

from denyut.errors import ConfigurationError, InvalidKey, NotKeepable
from denyut.tasks.keying import KEY_HEADER
from denyut.tasks.outbox.keeper import keeping
from denyut.tasks.outbox.places import DJANGO
from denyut.tasks.outbox.poke import Poker
from denyut.tasks.outbox.row import to_text

if TYPE_CHECKING:
    from celery.result import AsyncResult

    from denyut.app import Denyut
    from denyut.tasks.envelope import Envelope
    from denyut.tasks.intent import Intent

__all__ = ["Outbox"]


class Outbox:
    """The outbox of one app."""

    def __init__(self, pulse: Denyut) -> None:
        self._pulse = pulse

    @cached_property
    def poker(self) -> Poker:
        """Tells the relays that there is something to do."""
        return Poker(self._pulse)

    def enqueue(
        self, where: Any, signature: Any, *, idempotency_key: str | None = None, **options: Any
    ) -> AsyncResult[Any]:
        """Enqueue a job if, and only if, the transaction of ``where`` commits.

        A row is written into the table ``denyut_outbox`` with that transaction, and the workers relay it
        within milliseconds of the commit: at least once, and one job all the same, because its id is drawn
        now. Redis and the broker need not be there. What ``.delay()`` refuses is refused, with the same
        errors, before anything is written.

        If the key belongs to another job when the row is relayed, this one follows it, and ends as it does;
        with other arguments it fails with ``IdempotencyConflict``.

        Args:
            where: a ``Session``, ``scoped_session`` or ``Connection`` of SQLAlchemy; or the alias of one of
                Django's databases, such as ``"default"``, whose current ``atomic()`` is meant.
            signature: what to run: ``task.s(...)``, or a chain that begins with a task.
            idempotency_key: as for ``apply_async``.
            options: as for ``apply_async``: ``countdown``, ``eta``, ``queue``, ``link``, ... A countdown
                begins now, and not with the commit.

        Returns:
            The ``AsyncResult`` of the job. Its ``deduplicated`` is None: nobody can know yet.

        Raises:
            ConfigurationError: no ``denyut_outbox_url`` is set, or that database has no table for it.
            NotKeepable: a group, a chord, or a task that is no job.
            InvalidKey, Unfingerprintable, TypeError, kombu.exceptions.EncodeError: as ``apply_async``.
        """
        _check_relayed(self._pulse, where)
        _check(self._pulse, signature)
        writer = _writer(where)
        if idempotency_key is not None:
            options[KEY_HEADER] = idempotency_key
        with keeping(self._pulse) as keeper:
            # Not a child of the task that this may be called in: it may never come into being.
            result = signature.apply_async(**{"add_to_parent": False, **options})
        rows = [_row(self._pulse, intent, envelope) for intent, envelope in keeper.kept]
        writer.write(rows)
        writer.after_commit(self.poker.poke)
        result.deduplicated = None
        return result

    def close(self) -> None:
        """Close this process's connection; the next use opens another."""
        self.poker.close()


def _check_relayed(pulse: Denyut, where: Any) -> None:
    """Refuse what no worker would ever relay, as far as that can be known."""
    urls = pulse.settings.outbox_urls
    if not urls:
        raise ConfigurationError(
            "denyut_outbox_url is not set, so no worker would relay this job: set it to the database of "
            "this transaction, for Django django://default"
        )
    wanted = f"{DJANGO}{where}"
    if isinstance(where, str) and wanted not in urls and all(url.startswith(DJANGO) for url in urls):
        raise ConfigurationError(
            f"no worker would relay this job: denyut_outbox_url names {', '.join(urls)}, and not {wanted}"
        )


def _check(pulse: Denyut, signature: Any) -> None:
    if not isinstance(signature, Signature):
        raise NotKeepable(f"an outbox takes a signature, such as task.s(...), not {type(signature).__name__}")
    first = signature
    while isinstance(first, _chain) and first.tasks:
        first = first.tasks[0]
    if first.subtask_type:
        raise NotKeepable(
            f"an outbox takes a task, or a chain that begins with one, not a {first.subtask_type}: enqueue "
            "its members one by one, or a task that starts it"
        )
    if pulse.app.conf.task_always_eager:
        raise ConfigurationError(
            "task_always_eager is set: a job cannot wait for the commit and run here at once; run a worker "
            "for what enqueues with an outbox"
        )


def _writer(where: Any) -> Any:
    if isinstance(where, str):
        from denyut.tasks.outbox.django_writer import DjangoWriter

        return DjangoWriter(where)
    from denyut.tasks.outbox.session import SessionWriter

    return SessionWriter(where)


def _row(pulse: Denyut, intent: Intent, envelope: Envelope) -> dict[str, Any]:
    if "\0" in intent.id:
        raise InvalidKey(
            f"a job id with NUL, {intent.id[:40]!r}, cannot be kept in an outbox: leave task_id out"
        )
    return {
        "prefix": pulse.settings.prefix,
        "id": intent.id,
        # For people to read; the message has them as they are. PostgreSQL refuses NUL.
        "task": intent.task.replace("\0", "\\0"),
        "key": intent.key and intent.key.replace("\0", "\\0"),
        "message": to_text(intent, envelope),
        "due_in": round(intent.delay * 1_000_000) if intent.delay > 0 else None,
    }
