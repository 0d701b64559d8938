"""What a lock may be called, and for how long it may be held and waited for."""

from __future__ import annotations

from math import isfinite
from typing import Any

from denyut.errors import InvalidLock

__all__ = ["LONGEST_TTL", "check_name", "check_timeout", "check_ttl"]

_MOST_BYTES = 200
_SHORTEST_TTL = 0.05
#: The longest TTL, and the longest wait that has an end (s).
LONGEST_TTL = 86_400.0
_LONGEST_WAIT = 31_536_000.0


def check_name(name: Any) -> str:
    """Return ``name``: any text of 1 to 200 bytes of UTF-8.

    Raises:
        InvalidLock: if it is none.
    """
    if not isinstance(name, str) or not name:
        raise InvalidLock(f"lock name {name!r}: must be a text that is not empty")
    try:
        size = len(name.encode())
    except UnicodeEncodeError as exc:
        raise InvalidLock(f"lock name {name!r}: {exc.reason} (it has no UTF-8); use another") from exc
    if size > _MOST_BYTES:
        raise InvalidLock(
            f"lock name {name[:40]!r}...: has {size} bytes of UTF-8, at most {_MOST_BYTES} fit; "
            "take a digest of it"
        )
    return name


def check_ttl(ttl: Any, *, lease_ttl: float, renew: bool) -> float:
    """Return the TTL in seconds; that of the setting if it is None.

    Args:
        ttl: seconds.
        lease_ttl: the setting; the heartbeat comes every third of it.
        renew: whether the lock is to be renewed: then it must last for three beats.

    Raises:
        InvalidLock: if it is no number, or out of range.
    """
    if ttl is None:
        return lease_ttl
    low = lease_ttl if renew else _SHORTEST_TTL
    if not _is_number(ttl) or not low <= ttl <= LONGEST_TTL:
        why = (
            " (denyut_lease_ttl: it is renewed every third of that; a shorter one needs renew=False)"
            if renew
            else ""
        )
        raise InvalidLock(f"lock ttl {ttl!r}: must be a number from {low:g}{why} to {LONGEST_TTL:g} s")
    return float(ttl)


def check_timeout(timeout: Any) -> float | None:
    """Return how long to wait in seconds; None is for ever.

    Raises:
        InvalidLock: if it is no number, or out of range.
    """
    if timeout is None:
        return None
    if not _is_number(timeout) or not 0 <= timeout <= _LONGEST_WAIT:
        raise InvalidLock(
            f"lock timeout {timeout!r}: must be a number of seconds from 0 (try once) to {_LONGEST_WAIT:g}, "
            "or None (wait for ever)"
        )
    return float(timeout)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
