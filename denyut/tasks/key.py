"""Idempotency keys and job ids: what is a valid one, and where it lives."""

from __future__ import annotations

import json
from functools import lru_cache
from hashlib import sha256
from inspect import Signature, signature
from string import Formatter
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from denyut.errors import InvalidKey

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from denyut.keys import Keys

__all__ = ["MAX_LENGTH", "check_id", "check_key", "digest_of", "draw_id", "from_template"]

#: Longest key and longest job id, in characters.
MAX_LENGTH = 255


def check_key(key: Any, what: str = "an idempotency key") -> str:
    """Return ``key`` if it is a valid idempotency key; ``what`` names it in an error.

    Raises:
        InvalidKey: if it is not a string, empty, or over 255 characters.
    """
    return _check(key, what)


def check_id(job_id: Any) -> str:
    """Return ``job_id`` if it is a valid job id. Raises InvalidKey as for a key, and over 255 bytes."""
    text = _check(job_id, "a job id")
    if len(text.encode()) > MAX_LENGTH:  # what a running job says of itself has a fixed size
        raise InvalidKey(f"a job id must have at most {MAX_LENGTH} bytes of UTF-8: {text[:40]!r}...")
    return text


def digest_of(task: str, key: str, scope: str | None = None) -> str:
    """Return the digest under which ``key`` is stored: SHA-256 of task name, scope and key, 40 hex digits.

    The task name is part of it: two tasks may use the same key. So is the scope, if there is one.
    """
    # JSON has no NUL in it, so that no key looks like another one with a scope.
    text = f"{task}\0{key}" if scope is None else json.dumps([task, scope, key])
    return sha256(text.encode()).hexdigest()[:40]


def draw_id(keys: Keys, digest: str | None = None) -> str:
    """Draw a new job id; with ``digest``, one that falls into the partition of that key."""
    if digest is None:
        return str(uuid4())
    wanted = keys.partition_of(digest)
    while True:
        start = str(uuid4())[:-1]
        last = keys.last_digit(start, wanted)  # of sixteen digits, one most likely falls there
        if last is not None:
            return start + last


def from_template(template: str, run: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Fill ``template``, such as ``"order:{order_id}"``, with the arguments of one call.

    Args:
        template: a format string over the parameter names of the task.
        run: the task's function (bound, without ``self``), whose signature names the parameters.
        args: positional arguments.
        kwargs: keyword arguments.

    Raises:
        InvalidKey: if a parameter is not there, or the key it gives is not valid.
    """
    try:
        bound = _signature(run).bind(*args, **kwargs)
    except TypeError as exc:
        raise InvalidKey(f"idempotency key template {template!r}: the arguments do not fit: {exc}") from exc
    bound.apply_defaults()
    values = {**bound.arguments, **bound.arguments.get("kwargs", {})}
    try:
        return check_key(Formatter().vformat(template, (), values))
    except (KeyError, IndexError, AttributeError, ValueError) as exc:
        if isinstance(exc, InvalidKey):
            raise
        raise InvalidKey(
            f"idempotency key template {template!r} cannot be filled ({exc!r}); "
            f"the task has the parameters {', '.join(values) or 'none'}"
        ) from exc


@lru_cache(maxsize=1024)
def _signature(run: Any) -> Signature:
    return signature(run)


def _check(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise InvalidKey(f"{what} must be a string, got {value!r} of type {type(value).__name__}")
    if not value:
        raise InvalidKey(f"{what} must not be empty")
    try:
        value.encode()
    except UnicodeEncodeError as exc:
        raise InvalidKey(f"{what} must be valid Unicode, got {value[:40]!r}: {exc.reason}") from exc
    if len(value) > MAX_LENGTH:
        raise InvalidKey(
            f"{what} must have at most {MAX_LENGTH} characters, got {len(value)}: {value[:40]!r}...; "
            "use a hash of it"
        )
    return value
