"""Whether the message of a job that has been queued for long is nowhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from denyut.tasks.claim import us
from denyut.tasks.depth import queue_depth

if TYPE_CHECKING:
    from collections.abc import Sequence

    from denyut.app import Denyut
    from denyut.keys import PartitionKeys

__all__ = ["PAGE", "LostMessages", "WaitingJobs"]

#: Jobs queued for long that one look takes from each partition.
PAGE = 100


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


class WaitingJobs:
    """Finds the lost among the jobs that have been queued for long, however many wait.

    Of one queue the lost ones are the oldest, so every other look begins with the oldest of a partition.
    The looks between go on where the last of them stopped, and begin anew at the end: a long backlog of
    one queue must not hide the lost jobs of another.

    Args:
        pulse: the app's Denyut.
    """

    def __init__(self, pulse: Denyut) -> None:
        self._pulse = pulse
        self._further = False
        self._stopped_at: dict[int, str] = {}

    def begin(self, partition: PartitionKeys) -> str:
        """Return the score from which the next look takes its page of a partition."""
        return self._stopped_at.get(partition.partition, "-inf") if self._further else "-inf"

    def lost(self, client: Any, pages: Sequence[list[bytes]]) -> list[str]:
        """Return the jobs whose message is nowhere, and move on to the next page.

        Args:
            client: a Redis client.
            pages: of each partition ids and the times since when they are queued, in turn.

        Raises:
            redis.exceptions.RedisError, kombu.exceptions.OperationalError: it cannot be told now.
        """
        pairs = [
            (number, page[i].decode(), int(float(page[i + 1])))
            for number, page in enumerate(pages)
            for i in range(0, len(page), 2)
        ]
        self._turn_page(pages)
        queues = self._queues(client, pairs)
        passed = self._passed(
            client, {(number, queue) for (number, *_), queue in zip(pairs, queues, strict=True)}
        )
        timeout = us(self._pulse.settings.queued_timeout)
        depths: dict[str, int] = {}
        lost = []
        for (number, job_id, since), queue in zip(pairs, queues, strict=True):
            if not queue:
                continue
            if passed[number, queue] <= since + timeout:
                if queue not in depths:
                    depths[queue] = queue_depth(self._pulse.app, queue)
                if depths[queue]:
                    continue
            lost.append(job_id)
        return lost

    def _turn_page(self, pages: Sequence[list[bytes]]) -> None:
        if self._further or not self._stopped_at:
            self._stopped_at = {
                number: f"({page[-1].decode()}" if len(page) == 2 * PAGE else "-inf"
                for number, page in enumerate(pages)
            }
        self._further = not self._further

    def _queues(self, client: Any, pairs: Sequence[tuple[int, str, int]]) -> list[str]:
        pipe = client.pipeline(transaction=False)
        for _, job_id, _ in pairs:
            pipe.hget(self._pulse.keys.job(job_id).record, "queue")
        return [(queue or b"").decode() for queue in pipe.execute()]

    def _passed(self, client: Any, where: set[tuple[int, str]]) -> dict[tuple[int, str], int]:
        """Return how far each queue has got, by what each partition has seen of it."""
        pipe = client.pipeline(transaction=False)
        for number, queue in (order := sorted(where)):
            pipe.hget(self._pulse.keys.partition(number).counters, f"passed_us:{queue}")
        return {pair: int(value or 0) for pair, value in zip(order, pipe.execute(), strict=True)}
