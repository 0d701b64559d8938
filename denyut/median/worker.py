"""``celery -A proj denyut worker-median``: a worker that applies events, one message at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from denyut.errors import ConfigurationError
from denyut.median.routing import median_queue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from celery import Celery

__all__ = ["command_line", "run"]

# Only what is being applied is in a worker's hands: a killed worker's batch has a lease, and is back
# when that lapses. Waiting in memory brought no measurable speed (a batch takes milliseconds).
_PREFETCH = 1
_FIXED = ("-c", "--concurrency", "-Q", "--queues", "--autoscale", "-X", "--exclude-queues")


def run(
    app: Celery, shards: Sequence[int] | None = None, loglevel: str = "INFO", extra: Sequence[str] = ()
) -> Any:
    """Run a worker for median shards until it is told to stop, and return its exit code.

    Args:
        app: a Celery app with ``Denyut(app)``.
        shards: which shards to apply; None for all of them.
        loglevel: as ``celery worker --loglevel``.
        extra: further options of ``celery worker``.

    Raises:
        ConfigurationError: for a shard that does not exist, or an option that would break the order.
    """
    return app.worker_main(command_line(app, shards, loglevel, extra))


def command_line(
    app: Any, shards: Sequence[int] | None = None, loglevel: str = "INFO", extra: Sequence[str] = ()
) -> list[str]:
    """Return the arguments for ``app.worker_main``; arguments and errors as :func:`run`."""
    for option in extra:
        if option.partition("=")[0] in _FIXED or (option[:2] in _FIXED and not option.startswith("--")):
            raise ConfigurationError(
                f"{option}: a median worker applies the messages of its shards one at a time; "
                "choose shards, and start more workers"
            )
    pulse = app.denyut
    queues = [median_queue(pulse, shard).name for shard in _checked(shards, pulse.settings.median_shards)]
    name = "median" if shards is None else f"median-{'-'.join(map(str, shards))}"
    return [
        *("worker", "--hostname", f"{name}@%h", "--loglevel", loglevel, "--pool", "prefork"),
        *("--prefetch-multiplier", str(_PREFETCH), *extra),
        *("--concurrency", "1", "--queues", ",".join(queues)),
    ]


def _checked(shards: Sequence[int] | None, known: int) -> Sequence[int]:
    for shard in shards or ():
        if isinstance(shard, bool) or shard not in range(known):
            raise ConfigurationError(f"shard {shard!r}: must be a whole number from 0 to {known - 1}")
    if shards is not None and not shards:
        raise ConfigurationError("no shard was given; leave shards out to apply all of them")
    return range(known) if shards is None else list(shards)
