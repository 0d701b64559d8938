"""Is all well? A list of small checks, each with what to do."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

from kombu.exceptions import OperationalError
from redis.exceptions import RedisError, ResponseError

from denyut.config import hide_password
from denyut.keys import Keys
from denyut.median.routing import median_queue
from denyut.tasks.depth import queue_depth

if TYPE_CHECKING:
    from collections.abc import Callable

    from denyut.app import Denyut

__all__ = ["Check", "examine"]

OK, WARN, FAIL = "ok", "warn", "fail"
_OLDEST_REDIS = (6, 2)
_MOST_PARTITIONS = 1024
_SLOW_MS = 50.0


@dataclass(frozen=True, slots=True)
class Check:
    """One finding. ``level`` is ok, warn or fail; ``hint`` says what to do."""

    name: str
    level: str
    message: str
    hint: str = ""


def examine(pulse: Denyut) -> list[Check]:
    """Run all checks. Without Redis only the first can be told."""
    first = check_redis(pulse)
    if first.level == FAIL:
        return [first]
    checks: list[Callable[[Denyut], Check]] = [
        check_eviction,
        check_persistence,
        check_partitions,
        check_workers,
        check_leases,
        check_queues,
    ]
    return [first, *(check(pulse) for check in checks)]


def check_redis(pulse: Denyut) -> Check:
    """Redis can be reached, is new enough, and answers quickly."""
    try:
        begin = perf_counter()
        pulse.store.client.ping()
        took = (perf_counter() - begin) * 1000
        info = pulse.store.client.info("server")
    except (RedisError, OSError) as exc:
        where = hide_password(pulse.store.url)
        return Check("redis", FAIL, f"{where}: {exc}", "start it, or set DENYUT_REDIS_URL")
    version = str(info.get("valkey_version") or info.get("redis_version") or "0")
    text = f"{hide_password(pulse.store.url)}, version {version}, {took:.1f} ms"
    if tuple(int(part) for part in version.split(".")[:2]) < _OLDEST_REDIS:
        return Check("redis", FAIL, text, "Redis 6.2 or newer, or Valkey, is needed")
    if took > _SLOW_MS:
        return Check("redis", WARN, text, "every beat and claim waits for it: is it far, or busy?")
    return Check("redis", OK, text)


def check_eviction(pulse: Denyut) -> Check:
    """Redis never throws keys away to make room."""
    try:
        policy = pulse.store.client.config_get("maxmemory-policy").get("maxmemory-policy")
    except ResponseError as exc:
        return Check("eviction", WARN, f"cannot be asked: {exc}", "see that maxmemory-policy is noeviction")
    if policy != "noeviction":
        hint = "set maxmemory-policy noeviction: leases and jobs would vanish when memory is full"
        return Check("eviction", FAIL, f"maxmemory-policy is {policy}", hint)
    return Check("eviction", OK, "maxmemory-policy is noeviction")


def check_persistence(pulse: Denyut) -> Check:
    """Redis keeps its data over a restart."""
    info = pulse.store.client.info("persistence")
    if str(info.get("aof_enabled")) == "1":
        return Check("persistence", OK, "append-only file is on")
    return Check("persistence", WARN, "append-only file is off", "set appendonly yes: a restart loses jobs")


def check_partitions(pulse: Denyut) -> Check:
    """The setting is that with which the jobs were made."""
    setting = pulse.settings.partitions
    wide = Keys(pulse.settings.prefix, _MOST_PARTITIONS)
    pipe = pulse.store.client.pipeline(transaction=False)
    for number in range(setting, _MOST_PARTITIONS):
        pipe.exists(wide.partition(number).marker)
    beyond = [setting + i for i, found in enumerate(pipe.execute()) if found]
    if beyond:
        message = f"denyut_partitions is {setting}, but partition {beyond[-1]} is in use"
        return Check("partitions", FAIL, message, "set it to what it was: jobs beyond it are not found")
    return Check("partitions", OK, f"{setting} partitions")


def check_workers(pulse: Denyut) -> Check:
    """Somebody beats."""
    now = _now(pulse)
    since = now - round(pulse.settings.alive_for * 1e6)
    count = pulse.store.client.zcount(pulse.keys.workers(), since, "+inf")
    if not count:
        return Check("workers", WARN, "no worker beats", "start one: celery -A ... worker")
    return Check("workers", OK, f"{count} worker(s) beat")


def check_leases(pulse: Denyut) -> Check:
    """No running job is without a lease for longer than recovery takes."""
    now, client = _now(pulse), pulse.store.client
    pipe = client.pipeline(transaction=False)
    for partition in pulse.keys.all_partitions():
        pipe.zcard(partition.leases)
        pipe.zcount(partition.leases, "-inf", now - 2_000_000)
        pipe.zrange(partition.leases, 0, 0, withscores=True)
    replies = pipe.execute()
    running, lapsed = sum(replies[::3]), sum(replies[1::3])
    oldest = min((rows[0][1] for rows in replies[2::3] if rows), default=now)
    if lapsed:
        message = (
            f"{lapsed} running job(s) have lost their worker, the oldest {(now - oldest) / 1e6:.0f} s ago"
        )
        return Check("leases", FAIL, message, "a worker of this app recovers them: is one running?")
    return Check("leases", OK, f"{running} job(s) run, all with a lease")


def check_queues(pulse: Denyut) -> Check:
    """Every queue in which messages wait is consumed."""
    try:
        waiting = {name: depth for name in _queues(pulse) if (depth := queue_depth(pulse.app, name))}
        active = pulse.app.control.inspect(timeout=1.0).active_queues() or {}
    except (OperationalError, RedisError, OSError) as exc:
        return Check("queues", FAIL, f"the broker cannot be asked: {exc}", "is it running?")
    consumed = {queue["name"] for queues in active.values() for queue in queues}
    alone = {name: depth for name, depth in waiting.items() if name not in consumed}
    if alone:
        text = ", ".join(f"{name} ({depth} waiting)" for name, depth in sorted(alone.items()))
        median = any(name.startswith(f"{pulse.settings.median_queue}.") for name in alone)
        command = "denyut worker-median" if median else "worker -Q QUEUE"
        return Check("queues", FAIL, f"nobody consumes {text}", f"start: celery -A ... {command}")
    return Check(
        "queues", OK, f"{len(consumed)} queue(s) are consumed, {sum(waiting.values())} message(s) wait"
    )


def _queues(pulse: Denyut) -> list[str]:
    shards = range(pulse.settings.median_shards)
    return [*dict.fromkeys([*pulse.app.amqp.queues, *(median_queue(pulse, s).name for s in shards)])]


def _now(pulse: Denyut) -> int:
    seconds, micros = pulse.store.client.time()
    return int(seconds) * 1_000_000 + int(micros)
