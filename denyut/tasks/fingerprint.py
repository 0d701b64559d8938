"""The fingerprint of a job's arguments: guards an idempotency key against another payload.

It is the SHA-256 of the canonical form of the arguments *as the worker will decode them*, so that
a producer that sends ``(1, 2)`` and one that sends ``[1, 2]`` over JSON agree. Canonical: JSON with
sorted keys (RFC 8785 is the model), every other type tagged with its name. Positional and keyword
arguments are told apart: a producer need not know the task's signature.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from hashlib import sha256
from math import isfinite
from typing import Any
from uuid import UUID

from denyut.errors import Unfingerprintable

__all__ = ["fingerprint"]


def fingerprint(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Return the fingerprint of one call's decoded arguments: 40 hex digits.

    Raises:
        Unfingerprintable: if an argument has no canonical form, naming where it is.
    """
    try:
        form = [_canonical(list(args), "args"), _canonical(dict(kwargs), "kwargs")]
    except RecursionError:
        raise Unfingerprintable(
            "the arguments are nested too deeply, or contain themselves; a keyed job needs plain data"
        ) from None
    text = json.dumps(form, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return sha256(text.encode()).hexdigest()[:40]


def _canonical(value: Any, where: str) -> Any:
    if isinstance(value, Enum):
        return {"!enum": [type(value).__qualname__, value.name]}
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float):
        return value if isfinite(value) else {"!float": repr(value)}
    if isinstance(value, Mapping):
        return _mapping(value, where)
    if isinstance(value, list | tuple):
        return [_canonical(item, f"{where}[{i}]") for i, item in enumerate(value)]
    return _tagged(value, where)


def _mapping(value: Mapping[Any, Any], where: str) -> Any:
    if all(isinstance(key, str) and not key.startswith("!") for key in value):
        return {key: _canonical(item, f"{where}[{key!r}]") for key, item in value.items()}
    pairs = [
        [_canonical(key, f"a key of {where}"), _canonical(item, f"{where}[{key!r}]")]
        for key, item in value.items()
    ]
    return {"!map": sorted(pairs, key=_order)}


def _tagged(value: Any, where: str) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return {"!bytes": bytes(value).hex()}
    if isinstance(value, datetime | date | time):
        return {f"!{type(value).__name__}": value.isoformat()}
    if isinstance(value, timedelta):
        return {"!timedelta": [value.days, value.seconds, value.microseconds]}
    if isinstance(value, Decimal):
        return {"!Decimal": str(value)}
    if isinstance(value, UUID):
        return {"!UUID": value.hex}
    if isinstance(value, set | frozenset):
        return {"!set": sorted((_canonical(item, f"an item of {where}") for item in value), key=_order)}
    raise Unfingerprintable(
        f"{where} is {value!r} of type {type(value).__qualname__}, which has no canonical form; "
        "a keyed job takes plain data (numbers, text, bytes, dates, lists, mappings, sets): "
        "send an id and load the object in the task"
    )


def _order(item: Any) -> str:
    return json.dumps(item, sort_keys=True)
