"""Putting jobs back into the indexes that have lost them.

A script writes record and index together, so no crash parts them. But keys can be deleted by hand, or
evicted by a Redis whose ``maxmemory-policy`` allows it; then a record says SCHEDULED and nobody will
look at it again. ``denyut doctor`` notices (its audit counts jobs), and this mends it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from denyut.scripts import Script, run_all

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["reindex"]

REINDEX = Script("denyut.tasks", "reindex")

#: Keys of one look. Redis serves others in between.
_A_LOOK = 1000


def reindex(pulse: Denyut) -> int:
    """Walk over all records and put those back that no index has. May run at any time, beside workers.

    Returns:
        How many were put back.

    Raises:
        redis.exceptions.RedisError: it may be begun anew.
    """
    keys, client = pulse.keys, pulse.store.client
    put_back, cursor = 0, 0
    while True:
        cursor, names = client.scan(cursor, match=keys.record_pattern(), count=_A_LOOK, _type="hash")
        ids = {job_id for name in names if (job_id := keys.id_of_record(name.decode())) is not None}
        put_back += sum(run_all(client, [REINDEX.with_(keys.script(job_id), [job_id]) for job_id in ids]))
        if not cursor:
            return int(put_back)
