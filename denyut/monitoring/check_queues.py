"""Does somebody consume every queue in which something waits?"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from denyut.monitoring.check import Check
from denyut.monitoring.queues import known_queues
from denyut.monitoring.workers import live_workers
from denyut.tasks.depth import queue_depths

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["check_queues"]

#: The oldest queued jobs of each partition that are looked at.
_SAMPLE = 20
#: How long workers have to answer (s).
_PATIENCE = 1.0


def check_queues(pulse: Denyut, client: Any) -> Check:
    """Every queue with messages, or with queued jobs, has a consumer."""
    waiting = _queued_jobs(pulse, client)
    names = {*known_queues(pulse), *waiting}
    try:
        depths = queue_depths(pulse.app, names)
        waiting |= Counter({name: depth for name, depth in depths.items() if depth})
        consumed = _consumed(pulse) if waiting else {}
    except (OperationalError, RedisError, OSError) as exc:
        return Check.fail("queues", f"the broker cannot be asked: {exc}", "is it running?")
    if not waiting:
        return Check.ok("queues", f"nothing waits in {len(names)} queue(s)")
    alone = waiting.keys() - {queue for queues in consumed.values() for queue in queues}
    if not alone:
        text = ", ".join(f"{name} ({waiting[name]})" for name in sorted(waiting))
        return Check.ok("queues", f"somebody consumes whatever has something waiting: {text}")
    return _alone(pulse, client, Counter({name: waiting[name] for name in alone}), set(consumed))


def _alone(pulse: Denyut, client: Any, alone: Counter[str], answered: set[str]) -> Check:
    message = f"nobody consumes {', '.join(f'{name} ({alone[name]} waiting)' for name in sorted(alone))}"
    silent = sorted({worker.name for worker in live_workers(pulse, client)} - answered)
    if silent:
        hint = f"{', '.join(silent)} did not answer; a busy worker of the pool solo cannot: ask again"
        return Check.warn("queues", message, hint)
    medians = [name for name in alone if name.startswith(f"{pulse.settings.median_queue}.")]
    commands = ["celery -A APP denyut worker-median"] if medians else []
    others = sorted(alone.keys() - set(medians))
    if others:
        commands.append(f"celery -A APP worker -Q {','.join(others)}")
    return Check.fail("queues", message, f"start: {'; '.join(commands)}")


def _queued_jobs(pulse: Denyut, client: Any) -> Counter[str]:
    """Return how many of the oldest queued jobs belong to each queue."""
    pipe = client.pipeline(transaction=False)
    for partition in pulse.keys.all_partitions():
        pipe.zrange(partition.queued, 0, _SAMPLE - 1)
    for job_id in [job_id.decode() for job_ids in pipe.execute() for job_id in job_ids]:
        pipe.hget(pulse.keys.job(job_id).record, "queue")
    return Counter(queue.decode() for queue in pipe.execute() if queue)


def _consumed(pulse: Denyut) -> dict[str, set[str]]:
    """Return the queues that each worker consumes, by the name of the worker."""
    replies = pulse.app.control.inspect(timeout=_PATIENCE).active_queues() or {}
    return {worker: {queue["name"] for queue in queues} for worker, queues in replies.items()}
