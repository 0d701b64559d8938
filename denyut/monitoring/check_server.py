"""Is this a Redis that jobs can be trusted to?"""

from __future__ import annotations

import re
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

from redis.exceptions import RedisError, ResponseError

from denyut.monitoring.check import Check

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["check_eviction", "check_persistence", "check_redis"]

_OLDEST = (6, 2)
_SLOW_MS = 50.0
_PINGS = 5


def check_redis(_: Denyut, client: Any) -> Check:
    """It can be reached, is new enough, and answers quickly."""
    try:
        took = median(_ping_ms(client) for _ in range(_PINGS))
        info = client.info("server")
    except ResponseError as exc:  # it is there, and refuses to say what it is
        hint = f"see that it is Redis {_dotted(_OLDEST)} or newer, or Valkey"
        return Check.warn("redis", f"its version cannot be asked: {exc}", hint)
    except (RedisError, OSError) as exc:
        return Check.fail("redis", f"it cannot be reached: {exc}", "start it, or set DENYUT_REDIS_URL")
    name = "Valkey" if "valkey_version" in info else "Redis"
    version = str(info.get(f"{name.lower()}_version", "0"))
    text = f"{name} {version}, {took:.1f} ms away"
    if tuple(int(part) for part in re.findall(r"\d+", version)[:2]) < _OLDEST:
        return Check.fail("redis", text, f"Redis {_dotted(_OLDEST)} or newer, or Valkey, is needed")
    if took > _SLOW_MS:
        return Check.warn("redis", text, "every claim and beat waits for it: is it far away, or busy?")
    return Check.ok("redis", text)


def check_eviction(_: Denyut, client: Any) -> Check:
    """It never throws keys away to make room."""
    policy = client.info("memory").get("maxmemory_policy")
    if policy is None:  # some managed servers do not tell
        try:
            policy = client.config_get("maxmemory-policy").get("maxmemory-policy")
        except ResponseError as exc:
            hint = "see in your provider's console that maxmemory-policy is noeviction"
            return Check.warn("eviction", f"maxmemory-policy cannot be asked: {exc}", hint)
    if policy != "noeviction":
        message = f"maxmemory-policy is {policy}: when memory is full, leases, jobs and medians vanish"
        return Check.fail("eviction", message, "set maxmemory-policy to noeviction")
    return Check.ok("eviction", "maxmemory-policy is noeviction")


def check_persistence(_: Denyut, client: Any) -> Check:
    """It keeps its data over a restart."""
    info = client.info("persistence")
    if str(info.get("aof_enabled", 0)) != "1":
        message = "there is no append-only file: a restart loses what no snapshot has"
        return Check.warn("persistence", message, "set appendonly to yes")
    status = info.get("aof_last_write_status", "ok")
    if status != "ok":
        message = f"the last write of the append-only file: {status}"
        return Check.fail("persistence", message, "is its disk full? Redis refuses writes until it is not")
    return Check.ok("persistence", "there is an append-only file")


def _ping_ms(client: Any) -> float:
    begin = perf_counter()
    client.ping()
    return (perf_counter() - begin) * 1000


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
