"""The audit: whatever is done by hand is noted in Redis before and after, and written to the job store.

An entry is noted before its action begins, so that one whose process dies in between is in the audit, too
(``unknown``). It stays in Redis until the store has it: a store that is down keeps nobody from acting, and
loses no entry. If it cannot be noted that an action is over, whoever acts is told by an error.
"""

from __future__ import annotations

import json
import logging
import os
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import islice
from socket import gethostname
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from redis.exceptions import RedisError

from denyut.errors import AuditFailed
from denyut.scripts import Script
from denyut.tasks.actor import actor
from denyut.tasks.claim import us
from denyut.tasks.saving.snapshot import as_column

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from denyut.app import Denyut

__all__ = ["AuditEntry", "audited", "drain_audit"]

AUDITED = Script("denyut.tasks", "audited")

logger = logging.getLogger(__name__)

#: After what time an action whose end was not noted is taken for cut short (s). It may say otherwise later.
_CUT_SHORT = 60.0
#: Most entries in one transaction.
_BATCH = 500


@dataclass(slots=True, kw_only=True)
class AuditEntry:
    """One action by hand. ``at`` is a time of Redis' clock (us).

    ``actor`` is who did it, as they say; ``host`` and ``pid`` are of the process that did. ``job_id`` is
    empty for what is not done to one job. ``before`` and ``after`` are states of the job, empty if there is
    none. ``outcome`` is ``done`` or a word of the action (``requested``: the job is told to stop; ``ended``:
    it had ended, nothing was changed), ``refused: ...`` with the error, or ``unknown`` if the process never
    said. ``more`` is what else is worth knowing, such as the new job of a retry.
    """

    id: str
    at: int
    actor: str
    host: str
    pid: int
    action: str
    job_id: str = ""
    before: str = ""
    after: str = ""
    outcome: str = ""
    reason: str = ""
    more: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain data, for JSON."""
        return asdict(self)


@contextmanager
def audited(
    pulse: Denyut, action: str, *, job_id: str = "", by: str | None = None, reason: str = "", **more: Any
) -> Iterator[AuditEntry]:
    """Note the action that the ``with`` block is, and how it ends; the block adds what it knows.

    Without a job store nothing is noted.

    Args:
        pulse: the app's Denyut.
        action: a word for it.
        job_id: the job it is done to, if it is one.
        by: who does it; None: the user and host of this process.
        reason: why.
        more: what else is worth knowing, as JSON takes it.

    Raises:
        AuditFailed: it was done, and that could not be noted.
        redis.exceptions.RedisError: it could not even be noted that it begins; nothing was done.
    """
    entry = AuditEntry(
        id=uuid4().hex,
        at=0,
        actor=by or actor(),
        host=gethostname(),
        pid=os.getpid(),
        action=action,
        job_id=job_id,
        reason=reason,
        more={name: value for name, value in more.items() if value is not None},
    )
    if not pulse.keys.stored:
        yield entry
        return
    _begin(pulse, entry)
    try:
        yield entry
    except BaseException as exc:
        entry.outcome = f"refused: {type(exc).__name__}: {exc}"
        entry.after = entry.after or entry.before
        _end(pulse, entry, exc)
        raise
    entry.outcome = entry.outcome or "done"
    _end(pulse, entry)


def _begin(pulse: Denyut, entry: AuditEntry) -> None:
    pipe = pulse.store.client.pipeline(transaction=False)
    pipe.time()
    pipe.hget(pulse.keys.job(entry.job_id or "-").record, "state")
    (seconds, micros), state = pipe.execute()
    entry.at = int(seconds) * 1_000_000 + int(micros)
    entry.before = state.decode() if entry.job_id and state else ""
    pulse.store.client.hset(pulse.keys.audit(), entry.id, _text(entry))


def _end(pulse: Denyut, entry: AuditEntry, exc: BaseException | None = None) -> None:
    """Note how it ended, and write it to the store; what cannot be written now is written by a worker."""
    try:
        pulse.store.client.hset(pulse.keys.audit(), entry.id, _text(entry))
    except RedisError as wrong:
        what = f"{entry.action} {entry.job_id or entry.more}"
        text = f"{what}: how it ended could not be noted in the audit: {wrong}"
        logger.error("%s; the audit says that it is unknown", text)  # noqa: TRY400 - raised as well
        if exc is not None:
            exc.add_note(text)
            return
        raise AuditFailed(f"{text}; it was done, and the audit says that its end is unknown") from wrong
    pulse.saving.ask(lambda: _save(pulse, pulse.store.client, {entry.id: _text(entry)}))


def drain_audit(pulse: Denyut, client: Any) -> int:
    """Write the entries that the store has not; returns how many.

    Raises:
        sqlalchemy.exc.SQLAlchemyError, OSError: the store cannot be written; they stay in Redis.
        redis.exceptions.RedisError: it is done by a later call.
    """
    cut_short = pulse.store.now_us() - us(_CUT_SHORT)
    texts: dict[str, str] = {}
    for raw_id, raw in islice(client.hscan_iter(pulse.keys.audit(), count=_BATCH), _BATCH):
        text = raw.decode()
        entry = json.loads(text)
        if entry["outcome"] or entry["at"] < cut_short:
            texts[raw_id.decode()] = text
    return _save(pulse, client, texts) if texts else 0


def _save(pulse: Denyut, client: Any, texts: Mapping[str, str]) -> int:
    from denyut.database.audit import save_audit

    rows = [_row(pulse, json.loads(text)) for text in texts.values()]
    with pulse.database.begin() as connection:
        save_audit(connection, rows)
    AUDITED(client, [pulse.keys.audit()], [part for pair in texts.items() for part in pair])
    return len(rows)


def _row(pulse: Denyut, entry: Mapping[str, Any]) -> dict[str, Any]:
    from denyut.database.audit import UNKNOWN

    return {
        "prefix": pulse.settings.prefix,
        "id": entry["id"],
        "at": entry["at"],
        "pid": entry["pid"],
        "action": entry["action"],
        "job_id": as_column(entry["job_id"]) or None,
        "state_before": entry["before"] or None,
        "state_after": entry["after"] or None,
        "outcome": as_column(entry["outcome"]) or UNKNOWN,
        "more": json.dumps(entry["more"]),
        **{name: as_column(entry[name]) for name in ("actor", "host", "reason")},
    }


def _text(entry: AuditEntry) -> str:
    return json.dumps(asdict(entry), default=str)
