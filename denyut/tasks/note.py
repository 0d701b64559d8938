"""Noting in a job's story that a duplicate of it was answered, and whose it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

from denyut.scripts import Script

if TYPE_CHECKING:
    from denyut.app import Denyut
    from denyut.tasks.envelope import Envelope

__all__ = ["note_duplicate"]

NOTE = Script("denyut.tasks", "note")


def note_duplicate(pulse: Denyut, holder: str, code: str, key: str | None, envelope: Envelope) -> None:
    """Note that an enqueue was answered with ``holder``, the job that has its idempotency key.

    Args:
        pulse: the app's Denyut.
        holder: that job.
        code: ``DUPLICATE`` (the same arguments), or ``CONFLICT`` (others, so it was refused).
        key: the key.
        envelope: the message that was not sent, which names its producer.
    """
    origin = str(envelope.headers.get("origin") or "")
    NOTE(pulse.store.client, pulse.keys.script(holder), [holder, code.lower(), f"key {key}", origin])
