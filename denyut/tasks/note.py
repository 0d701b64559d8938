"""Noting in a job's story that a duplicate of it was answered, and whose it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

from denyut.scripts import Script

if TYPE_CHECKING:
    from denyut.app import Denyut
    from denyut.scripts import Call
    from denyut.tasks.envelope import Envelope

__all__ = ["duplicate_note", "note_duplicate"]

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
    script, keys, args = duplicate_note(pulse, holder, code, key, str(envelope.headers.get("origin") or ""))
    script(pulse.store.client, keys, args)


def duplicate_note(pulse: Denyut, holder: str, code: str, key: str | None, origin: str) -> Call:
    """Return the same as a call, for many at once; ``origin`` names the producer."""
    return NOTE.with_(pulse.keys.script(holder), [holder, code.lower(), f"key {key}", origin])
