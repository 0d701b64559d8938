"""A kept job as text: message and intent, so that a relay can send it as the producer would have."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from denyut.errors import UnreadableMessage
from denyut.tasks.envelope import Envelope
from denyut.tasks.intent import Intent
from denyut.tasks.unique import Uniqueness

if TYPE_CHECKING:
    from denyut.database.outbox_take import Row

__all__ = ["FORMAT", "LEAST_RETENTION", "from_row", "to_text"]

#: Of the text: a relay leaves one that it does not know to a newer version.
FORMAT = 1

#: A job of an outbox is remembered at least for so long after its end (s): a relay that takes over from one
#: that died before it could delete the row must find that the job was enqueued.
LEAST_RETENTION = 60.0

#: What only the process that sends has.
_NOT_KEPT = ("attempt", "kept", "frozen", "delay", "by", "step", "unique")


def to_text(intent: Intent, envelope: Envelope) -> str:
    """Return a kept job as JSON text in ASCII."""
    told = {spec.name: getattr(intent, spec.name) for spec in fields(intent) if spec.name not in _NOT_KEPT}
    return json.dumps([FORMAT, {**told, "unique": asdict(intent.unique)}, envelope.dump()])


def from_row(row: Row) -> tuple[Intent, Envelope]:
    """Return what :func:`to_text` was given, as of now: what was for later is due in what is left of that.

    The id was promised to somebody, so it is as one that was given: it runs, or follows the job that has
    its key.

    Raises:
        UnreadableMessage: it cannot be read by this version.
    """
    try:
        version, told, text = json.loads(row.message)
    except (ValueError, TypeError) as exc:
        raise UnreadableMessage(f"it is no JSON list of three: {exc}") from exc
    if version != FORMAT:
        raise UnreadableMessage(f"it has format {version!r}, and this version of Denyut reads {FORMAT}")
    known = {spec.name for spec in fields(Intent)}
    try:
        if unknown := sorted(set(told) - known):
            raise UnreadableMessage(f"it asks for {', '.join(unknown)}, which this version does not know")
        envelope = Envelope.load(text)
        told["unique"] = Uniqueness(**told["unique"])
        # Nobody's dispatch: whatever has this id is this job, and is not sent again.
        told |= {"attempt": None, "kept": True, "frozen": True, "by": ""}
        intent = Intent(**told, delay=row.due_in or 0.0)
        if envelope.headers["id"] != intent.id or row.id != intent.id:
            raise UnreadableMessage(f"its message is that of job {envelope.headers['id']!r}")
        intent.expires = _left(intent, row.age)
        intent.retention = max(intent.retention, LEAST_RETENTION)
    except (TypeError, ValueError, KeyError, AttributeError) as exc:
        raise UnreadableMessage(f"{type(exc).__name__}: {exc}") from exc
    return intent, envelope


def _left(intent: Any, age: float) -> float | None:
    """Return the seconds until it expires: one that is not for later any more is left to Celery."""
    if intent.expires is None or intent.delay <= 0:
        return None
    return max(float(intent.expires) - age, 0.001)
