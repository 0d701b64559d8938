"""Writing jobs to the store: read from Redis, written in one transaction, confirmed to Redis.

Wherever it is cut short nothing is lost: what was not confirmed is on the index still, and is written again;
of two versions the store keeps the higher one. A row that the store refuses is set aside with its reason,
and does not hold the others up; when its job changes again, it is tried again.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, SQLAlchemyError, StatementError

from denyut.database.save import save_events, save_jobs
from denyut.scripts import Script, run_all
from denyut.tasks.saving.snapshot import Snapshot, read_snapshots

if TYPE_CHECKING:
    from collections.abc import Sequence

    from denyut.app import Denyut
    from denyut.scripts import Call

__all__ = ["confirm", "save", "write"]

SAVED = Script("denyut.tasks", "saved")

logger = logging.getLogger(__name__)

#: SQLSTATE classes of what is wrong with the data: data, integrity, limits of the program.
_DATA = ("22", "23", "54")
#: Most jobs that one call of the script confirms.
_CHUNK = 200


def save(pulse: Denyut, client: Any, job_ids: Sequence[str]) -> int:
    """Write the jobs ``job_ids`` as they are now; returns how many are off the index.

    Args:
        pulse: the app's Denyut.
        client: a Redis client.
        job_ids: at most some hundreds: they are one transaction.

    Raises:
        sqlalchemy.exc.SQLAlchemyError, OSError: the store cannot be written; nothing was confirmed.
        redis.exceptions.RedisError: it is not known what was confirmed. Write them again.
    """
    snapshots = read_snapshots(pulse, client, job_ids)
    refused = write(pulse, [each for each in snapshots if each.row is not None])
    return confirm(pulse, client, snapshots, refused)


def write(pulse: Denyut, snapshots: Sequence[Snapshot]) -> dict[str, str]:
    """Write snapshots in one transaction; returns why the store refuses those that it does, by id.

    Raises:
        sqlalchemy.exc.SQLAlchemyError, OSError: the store cannot be written.
    """
    if not snapshots:
        return {}
    try:
        with pulse.database.begin() as connection:
            save_jobs(connection, [each.row for each in snapshots if each.row is not None])
            save_events(connection, [event for each in snapshots for event in each.events])
    except (SQLAlchemyError, ValueError) as exc:
        if not _is_of_the_data(exc):
            raise
        if len(snapshots) > 1:  # find those that are to blame
            half = len(snapshots) // 2
            return {**write(pulse, snapshots[:half]), **write(pulse, snapshots[half:])}
        why = f"{type(exc).__name__}: {str(exc).splitlines()[0]}"[:500]
        # No traceback: it would show the values.
        logger.error("job %s: the job store refuses it (%s); set aside", snapshots[0].id, why)  # noqa: TRY400 - as said
        return {snapshots[0].id: why}
    return {}


def confirm(pulse: Denyut, client: Any, snapshots: Sequence[Snapshot], refused: dict[str, str]) -> int:
    """Tell Redis what the store has, in one round trip; returns how many are off the index."""
    parts: dict[int, list[Snapshot]] = defaultdict(list)
    for each in snapshots:
        parts[pulse.keys.partition_of(each.id)].append(each)
    calls: list[Call] = []
    for number, here in parts.items():
        part = pulse.keys.partition(number)
        for at in range(0, len(here), _CHUNK):
            chunk = here[at : at + _CHUNK]
            names, args = [part.outbox, part.refused], [str(len(chunk))]
            for each in chunk:
                job = pulse.keys.job(each.id)
                names += (job.record, job.telemetry, job.events)
                args += (each.id, each.version, each.copied, refused.get(each.id, ""))
            calls.append(SAVED.with_(names, args))
    return sum(run_all(client, calls))


def _is_of_the_data(exc: Exception) -> bool:
    if isinstance(exc, DBAPIError):
        state = getattr(exc.orig, "sqlstate", None) or ""
        return isinstance(exc, DataError | IntegrityError) or state.startswith(_DATA)
    return isinstance(exc, StatementError | ValueError)
