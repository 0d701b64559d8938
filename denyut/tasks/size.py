"""The size of a message, which is refused at the door before anything is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from denyut.errors import MessageTooLarge

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["check_size"]


def check_size(pulse: Denyut, task: str, body: str | bytes) -> None:
    """Refuse a message whose ``body``, as it is encoded and compressed, is over ``denyut_max_message_bytes``.

    Raises:
        MessageTooLarge: with its size in bytes, and the limit.
    """
    most = pulse.settings.max_message_bytes
    size = len(body) if isinstance(body, bytes) or body.isascii() else len(body.encode())
    if size > most:
        raise MessageTooLarge(task, size, most)
