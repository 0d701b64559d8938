"""Whether the message of a job that has been queued for long is nowhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from denyut.tasks.claim import us
from denyut.tasks.depth import queue_depth

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["LostMessages"]


class LostMessages:
    """One look at the queues: each is asked for its depth once, however many jobs wait in it.

    A message is taken for lost if its queue is empty, or has gone on to jobs that are younger by
    more than ``denyut_queued_timeout``. Where that is wrong (priorities, a slow consumer) a second
    copy does no harm: one of them is claimed, the other steps aside.

    Args:
        pulse: the app's Denyut.
        client: a Redis client.
    """

    def __init__(self, pulse: Denyut, client: Any) -> None:
        self._pulse = pulse
        self._client = client
        self._depths: dict[str, int] = {}

    def has(self, job_id: str) -> bool:
        """Whether the message of the queued job ``job_id`` is nowhere.

        Raises:
            redis.exceptions.RedisError, kombu.exceptions.OperationalError: it cannot be told now.
        """
        keys = self._pulse.keys
        partition = keys.partition(keys.partition_of(job_id))
        found = self._client.hget(keys.job(job_id).record, "queue")
        since = self._client.zscore(partition.queued, job_id)
        if found is None or since is None:
            return False
        queue = found.decode()
        passed = self._client.hget(partition.counters, f"passed_us:{queue}")
        if passed is not None and int(passed) > since + us(self._pulse.settings.queued_timeout):
            return True
        if queue not in self._depths:
            self._depths[queue] = queue_depth(self._pulse.app, queue)
        return self._depths[queue] == 0
