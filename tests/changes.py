"""Looks on at every script call: whatever changes a record must make a new version of it, and mark it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from redis.connection import AbstractConnection

from denyut import scripts

_RECORD = re.compile(r"^(.+:\{\d+\}):job:(?!alive:|telemetry:|events:)(.+)$")
_SEND = AbstractConnection.send_packed_command
#: Counts of refusals, which come in storms, and what is known of the store itself: no news for the store.
_NO_CHANGE = ("n:", "last:", "copied", "forget_at")

Records = dict[str, dict[bytes, bytes]]


@contextmanager
def every_change_is_a_version() -> Iterator[list[str]]:
    """Watch the scripts of this process; yields what was found wrong so far."""
    wrong: list[str] = []
    quick = scripts._quick

    def looked_on(client: Any, calls: Any) -> Any:
        if AbstractConnection.send_packed_command is not _SEND:  # the test counts commands
            return quick(client, calls)
        names = sorted({key for _, keys, _ in calls for key in keys if _RECORD.match(str(key))})
        before = _read(client, names)
        replies = quick(client, calls)
        after = _read(client, names)
        for name in names:
            wrong.extend(_judge(client, name, before[name], after[name], calls))
        return replies

    scripts._quick = looked_on
    try:
        yield wrong
    finally:
        scripts._quick = quick


def _read(client: Any, names: list[str]) -> Records:
    pipe = client.pipeline(transaction=False)
    for name in names:
        pipe.hgetall(name)
    return {
        name: found if isinstance(found, dict) else {}
        for name, found in zip(names, pipe.execute(raise_on_error=False), strict=True)
    }


def _judge(client: Any, name: str, old: dict[bytes, bytes], new: dict[bytes, bytes], calls: Any) -> list[str]:
    news = {f.decode() for f in old.keys() | new.keys() if old.get(f) != new.get(f)}
    news = {field for field in news if not field.startswith(_NO_CHANGE)}
    if not news or not new:
        return []
    which = f"{name}, changed by {sorted({script.name for script, keys, _ in calls if name in keys})}: {news}"
    found = []
    if int(new.get(b"version", 0)) <= int(old.get(b"version", -1)):
        found.append(f"no new version of {which}")
    prefix, job_id = _RECORD.match(name).groups()  # type: ignore[union-attr]
    stored = any(f"{prefix}:outbox" in keys for script, keys, args in calls if script.name != "beat")
    if stored and client.zscore(f"{prefix}:outbox", job_id.removeprefix(":")) is None:
        found.append(f"not marked: {which}")
    return found
