"""A Redis that has lost data, or has come back with older data, gets from the store what it should have.

Jobs that wait are put back with their message and their time, and published again; those that run have the
time of a lease to say so; those that have ended answer for their key, and for copies of their message, until
their retention is over. Where Redis has a record as new, or newer, nothing is written.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from denyut.database.read import Owed, read_owed, read_records
from denyut.scripts import Script, run_all
from denyut.tasks.claim import us
from denyut.tasks.keying import hold_key
from denyut.tasks.saving.snapshot import from_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from denyut.app import Denyut

__all__ = ["compare", "put_back", "put_back_lost"]

PUT_BACK = Script("denyut.tasks", "put_back")

logger = logging.getLogger(__name__)

#: Jobs in one page.
PAGE = 1000
#: How long one worker may take to put everything back, before another begins, too (ms). Both may: each step
#: is one script that does nothing the second time.
_TURN = 60_000


def put_back_lost(pulse: Denyut, client: Any) -> int | None:
    """Put back what Redis should have, if it may have lost data since that was last done.

    Returns:
        How many jobs were put back; None if there was nothing to look for, or another worker looks.

    Raises:
        sqlalchemy.exc.SQLAlchemyError, OSError: the store cannot be read; it is done by a later call.
        redis.exceptions.RedisError: the same.
    """
    # A flush takes the key away; a server that was started again, or took over, has another id.
    pipe = client.pipeline(transaction=False)
    pipe.get(pulse.keys.compared())
    pipe.info("server")
    known, info = pipe.execute()
    server = str(info["run_id"])
    if known is not None and known.decode() == server:
        return None
    if not client.set(pulse.keys.comparing(), server, nx=True, px=_TURN):
        return None
    try:
        count = compare(pulse, client)
        client.set(pulse.keys.compared(), server)
    finally:
        client.delete(pulse.keys.comparing())
    if count:
        logger.warning("Redis had lost %d job(s); they were put back from the job store", count)
    return count


def compare(pulse: Denyut, client: Any, *, page: int = PAGE) -> int:
    """Compare Redis with the store, and put back what it should have; returns how many jobs that were.

    Raises:
        sqlalchemy.exc.SQLAlchemyError, OSError: the store cannot be read.
    """
    prefix, count = pulse.settings.prefix, 0
    after: Owed | None = None
    now = pulse.store.now_us()
    while True:
        with pulse.database.begin() as connection:
            owed = read_owed(connection, prefix, now, after=after, limit=page)
        if not owed:
            return count
        after = owed[-1]
        pipe = client.pipeline(transaction=False)
        for each in owed:
            pipe.hget(pulse.keys.job(each.id).record, "version")
        known = pipe.execute()
        lost = [each.id for each, has in zip(owed, known, strict=True) if int(has or 0) < each.version]
        count += put_back(pulse, client, lost)


def put_back(pulse: Denyut, client: Any, job_ids: Sequence[str]) -> int:
    """Put back those of the jobs that the store has as newer than Redis; returns how many.

    Raises:
        sqlalchemy.exc.SQLAlchemyError, OSError: the store cannot be read.
    """
    if not job_ids:
        return 0
    with pulse.database.begin() as connection:
        found = read_records(connection, pulse.settings.prefix, job_ids)
    calls, held = [], []
    for job_id, (version, text) in found.items():
        fields = from_text(text)
        fields.pop(b"copied", None)
        digest = fields[b"digest"].decode() if b"digest" in fields else None
        args: list[Any] = [job_id, version, us(pulse.settings.lease_ttl)]
        args += [part for pair in fields.items() for part in pair]
        calls.append(PUT_BACK.with_(pulse.keys.script(job_id, digest), args))
        live = b"finished_at" not in fields
        if digest is not None and live and pulse.keys.partition_of(digest) != pulse.keys.partition_of(job_id):
            held.append((job_id, digest, fields.get(b"fp", b"").decode()))
    for job_id, digest, fp in held:  # a key of another partition
        hold_key(pulse, job_id, digest, fp, recorded=True)
    return sum(run_all(client, calls))
