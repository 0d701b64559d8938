"""Lua scripts: loaded from ``lua/*.lua`` files, called by SHA, checked for one slot.

A script file begins with comment lines that list KEYS, ARGV, return values and complexity. A line
``-- @include name`` is replaced by ``denyut/lua/name.lua``, which may include others. Reference: Redis,
"Scripting with Lua"; EVALSHA falls back to EVAL when the server has lost its script cache.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from hashlib import sha1
from importlib.resources import files
from typing import Any

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError
from redis.exceptions import TimeoutError as RedisTimeoutError

from denyut.quick import QuickRedis, packed

__all__ = ["Call", "Script", "run_all", "slot_tag"]

_INCLUDE = re.compile(r"^-- @include (\w+)$", re.MULTILINE)
_TAG = re.compile(r"\{([^}]+)\}")


class Script:
    """One Lua script of a package, such as ``Script("denyut.tasks", "claim")``."""

    def __init__(self, package: str, name: str) -> None:
        self.package = package
        self.name = name

    @property
    def source(self) -> str:
        """The script's text, includes resolved."""
        return _load(self.package, self.name)[0]

    @property
    def sha(self) -> str:
        """SHA-1 of the text, as EVALSHA wants it."""
        return _load(self.package, self.name)[1]

    def __call__(self, client: Any, keys: Sequence[str], args: Sequence[Any] = ()) -> Any:
        """Run the script and return its reply: one round trip (two when the cache was lost)."""
        if isinstance(client, QuickRedis):
            reply = _quick(client, [(self, keys, args)])
            if reply is not None and not isinstance(reply[0], NoScriptError):
                return _checked(reply[0])
        try:
            return client.evalsha(self.sha, len(keys), *keys, *args)
        except NoScriptError:
            return client.eval(self.source, len(keys), *keys, *args)

    def with_(self, keys: Sequence[str], args: Sequence[Any] = ()) -> Call:
        """Return the call as a value, for :func:`run_all`."""
        return (self, keys, args)

    def __repr__(self) -> str:
        return f"Script({self.package!r}, {self.name!r})"


Call = tuple[Script, Sequence[str], Sequence[Any]]


def run_all(client: Any, calls: Sequence[Call], *, raising: bool = True) -> list[Any]:
    """Run many script calls in one pipelined round trip and return their replies in order.

    The calls are not one transaction: each is atomic by itself. Calls whose script the server
    does not know are sent again, all together; all others have run. The first error is raised; with
    ``raising`` False it stands where the reply would.
    """
    if not calls:
        return []
    replies = _quick(client, calls) if isinstance(client, QuickRedis) else None
    if replies is None:
        pipe = client.pipeline(transaction=False)
        for script, keys, args in calls:
            pipe.evalsha(script.sha, len(keys), *keys, *args)
        replies = pipe.execute(raise_on_error=False)
    if missing := [i for i, reply in enumerate(replies) if isinstance(reply, NoScriptError)]:
        again = run_all(client, _load_into(client, [calls[i] for i in missing]), raising=False)
        for i, reply in zip(missing, again, strict=True):
            replies[i] = reply
    for reply in replies:
        if raising and isinstance(reply, Exception):
            raise reply
    return list(replies)


def _load_into(client: Any, calls: Sequence[Call]) -> Sequence[Call]:
    for script in {script.sha: script for script, _, _ in calls}.values():
        client.script_load(script.source)
    return calls


def slot_tag(keys: Sequence[str]) -> str:
    """Return the one hash tag that all ``keys`` share.

    Raises:
        ValueError: if they would fall into different slots of a cluster, or have no tag.
    """
    tags = {match.group(1) if (match := _TAG.search(key)) else key for key in keys}
    if len(tags) != 1:
        raise ValueError(f"keys of one script must share one hash tag, got {sorted(tags)}")
    return tags.pop()


def _quick(client: QuickRedis, calls: Sequence[Call]) -> list[Any] | None:
    """Return the replies; None if the connection failed, so that all is to be sent again with patience."""
    commands = [packed(("EVALSHA", script.sha, len(keys), *keys, *args)) for script, keys, args in calls]
    try:
        return client.quick(commands)
    except (RedisConnectionError, RedisTimeoutError, OSError):
        return None


def _checked(reply: Any) -> Any:
    if isinstance(reply, Exception):
        raise reply
    return reply


@cache
def _load(package: str, name: str) -> tuple[str, str]:
    text = (files(package) / "lua" / f"{name}.lua").read_text(encoding="utf-8")
    while _INCLUDE.search(text):
        text = _INCLUDE.sub(
            lambda m: (files("denyut") / "lua" / f"{m.group(1)}.lua").read_text("utf-8"), text
        )
    return text, sha1(text.encode(), usedforsecurity=False).hexdigest()
