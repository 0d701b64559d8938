"""Who does something by hand: the user and the host of this process."""

from __future__ import annotations

from getpass import getuser
from socket import gethostname

__all__ = ["actor"]


def actor() -> str:
    """Return ``user@host``."""
    try:
        return f"{getuser()}@{gethostname()}"
    except (KeyError, OSError):  # a user without a name, as in a container
        return f"user@{gethostname()}"
